// Package verify checks a journal with nothing but the lines and a public key: the events of a run
// form a complete chain, the end is signed, and the run, executed again, does the same. Folder also
// checks the order of all ended runs and calls in a folder, so a missing run shows. Begin with
// File, Folder and ParseReceipt.
//
// Lines are hostile: everything is bounded, and unknown data is not verified. The holder of the
// private key can sign anything; without the key, no change, removal, addition or reordering stays
// undetected.
package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// Options say how runs are verified.
type Options struct {
	Keys []seal.PublicKey // signatures of other keys are refused
	// Sandbox executes runs again; the Sandbox is not closed. Limits bound the execution, see
	// replay.AtMost.
	Sandbox compose.Sandbox
	Limits  sandbox.Limits
	// Head returns the digest of the last event of a run continued by another run, or "". Nil: all
	// unknown.
	Head func(ctx context.Context, run string) string
	// Receipt is a client's receipt, or nil. With a receipt, only the receipt's run is verified,
	// and the record must match the receipt.
	Receipt *Receipt
	Log     *slog.Logger // of the sandbox; nil discards the log
}

// maxFile bounds a file, in bytes. No run has more; see package journal.
const maxFile = 1 << 30

// ErrTooLarge means that a file has more bytes than any run.
var ErrTooLarge = fmt.Errorf("it has more than %d bytes, which no run has", maxFile)

// Lines splits a file into lines, without their newlines. Empty ones are left out.
func Lines(r io.Reader) ([][]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, ErrTooLarge
	}
	lines := bytes.Split(text, []byte{'\n'})
	return slices.DeleteFunc(lines, func(l []byte) bool { return len(l) == 0 }), nil
}

// Result has the findings about a file.
type Result struct {
	Runs []Report `json:"runs"`
	// Problems are lines other than events, or events without their run.
	Problems []string `json:"problems,omitempty"`
	// Others counts calls without a script, and checkpoints; only Folder checks them.
	Others int `json:"others,omitempty"`
}

// Verified reports whether a run exists, and everything is verified.
func (r *Result) Verified() bool {
	return len(r.Runs) > 0 && len(r.Problems) == 0 && !slices.ContainsFunc(r.Runs, func(r Report) bool { return !r.Verified })
}

// maxProblems bounds the listed problems.
const maxProblems = 20

func (r *Result) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// File verifies the runs in lines, nested runs together with their callers. With only, File
// verifies the run with the id only. The error is the cause of ctx, or the reason why the sandbox
// cannot run anything.
func File(ctx context.Context, lines [][]byte, only string, opts Options) (*Result, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	result := &Result{}
	all := newRuns()
	for i, line := range lines {
		e, err := parse(line)
		switch {
		case err != nil:
			result.problem("line %d: %v", i+1, err)
		case !e.isOfRun():
			result.Others++
		default:
			all.add(e)
		}
	}
	for _, id := range all.order {
		r := all.byID[id]
		parent := r.parent()
		switch {
		case parent != "" && all.byID[parent] != nil:
			continue // verified together with the parent
		case opts.Receipt != nil && id != opts.Receipt.Run:
			continue
		case only != "" && id != only:
			result.problem("run %s was not asked for", id)
			continue
		}
		report, err := opts.run(ctx, all, r)
		if err != nil {
			return nil, err
		}
		result.Runs = append(result.Runs, *report)
	}
	switch r := opts.Receipt; {
	case r == nil:
	case only != "" && only != r.Run:
		result.problem("the receipt is about run %s, and not about run %s", r.Run, only)
	case len(result.Runs) == 0:
		result.problem("run %s of the receipt is missing, or is a nested run", r.Run)
	}
	if opts.Receipt == nil && len(all.order) > 0 && len(result.Runs) == 0 {
		result.problem("the runs call each other in a circle")
	}
	if len(all.order) == 0 && len(result.Problems) == 0 {
		result.problem("no runs")
	}
	return result, nil
}

// run verifies an outermost run, or a run without its caller in the file.
func (o *Options) run(ctx context.Context, all *runs, r *events) (*Report, error) {
	report := newReport(r)
	tree, err := all.tree(r)
	if err != nil {
		return report.fail(Chain, err), nil
	}
	report.chained(tree)
	if err := o.receipt(r, report); err != nil {
		return report.fail(Kept, err), nil
	}
	if err := o.signature(r, report); err != nil {
		return report.fail(Signature, err), nil
	}
	if err := o.before(ctx, r, report); err != nil {
		return report.fail(Continued, err), nil
	}
	rec, err := tree.record()
	if err == nil {
		err = tree.agrees(rec)
	}
	if err != nil {
		return report.fail(Execution, err), nil
	}
	if err := o.result(rec, report); err != nil {
		return report.fail(Kept, err), nil
	}
	if err := o.execute(ctx, rec, report); err != nil {
		var differs *differsError
		if errors.As(err, &differs) {
			return report.fail(Execution, err), nil
		}
		return nil, err
	}
	report.Verified = true
	return report, nil
}

// signature checks who has signed the end of a run.
func (o *Options) signature(r *events, report *Report) error {
	last := r.list[len(r.list)-1]
	s := last.parts.Seal
	switch {
	case s == nil:
		return errors.New("no signature: the run was not signed")
	case s.Events != len(r.list):
		return fmt.Errorf("the signature is about %d events, but the run has %d", s.Events, len(r.list))
	}
	if err := trusted(s, r.id, last.digest, o.Keys); err != nil {
		return err
	}
	report.signed(s)
	return nil
}

// trusted checks that a seal is the signature of a key in keys about the given run or checkpoint.
func trusted(s *seal.Seal, run string, head seal.Digest, keys []seal.PublicKey) error {
	if len(keys) == 0 {
		return errors.New("no key to check the signature (give the public key with --key)")
	}
	for _, key := range keys {
		if key.ID() == s.Key {
			return s.Check(run, head, key)
		}
	}
	return fmt.Errorf("the signature is made with the key %s, and not with a trusted key (%s)", s.Key, ids(keys))
}

// before checks the link to the run continued by this run.
func (o *Options) before(ctx context.Context, r *events, report *Report) error {
	continues, head := r.list[0].text("continues"), r.list[0].text("continuesHead")
	if continues == "" {
		return nil
	}
	there := ""
	if o.Head != nil {
		there = o.Head(ctx, continues)
	}
	switch {
	case head == "":
		report.NotProven = append(report.NotProven, fmt.Sprintf("the continued run %s: the record of this run had no end", continues))
	case there == "":
		report.NotProven = append(report.NotProven, fmt.Sprintf("the continued run %s with the head %s: verify this run, too", continues, head))
	case there != head:
		return fmt.Errorf("the run continues run %s with the head %s, but in the journal the head is %s", continues, head, there)
	default:
		report.check(Continued, fmt.Sprintf("run %s has the head that the continuing run names (verify run %[1]s, too)", continues))
	}
	return nil
}
