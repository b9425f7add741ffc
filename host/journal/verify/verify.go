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
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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

// events are the events of a run, in the order of the file.
type events struct {
	id       string
	list     []*event
	children []*events
}

// runs are the runs of a file.
type runs struct {
	byID  map[string]*events
	order []string // of their first events
}

func newRuns() *runs { return &runs{byID: map[string]*events{}} }

func (a *runs) add(e *event) {
	r := a.byID[e.run]
	if r == nil {
		r = &events{id: e.run}
		a.byID[e.run], a.order = r, append(a.order, e.run)
	}
	r.list = append(r.list, e)
}

// parent returns the id of the calling run, or "".
func (r *events) parent() string {
	id, _ := wire.GetString(r.list[0].members["parent"], "run")
	return id
}

// call returns the number of the call answered by a run.
func (r *events) call() string {
	n, _ := wire.Get(r.list[0].members["parent"], "call")
	return string(n)
}

// check checks the chain of events: the first event begins the run, the last event ends the run,
// and each event has the digest of the previous event. It returns the digest of the last event.
func (r *events) check() (head seal.Digest, err error) {
	first, last := r.list[0], r.list[len(r.list)-1]
	if first.kind != kindBegin {
		return head, fmt.Errorf("the first event is %q: the beginning is missing", first.kind)
	}
	chained := false
	for _, e := range r.list {
		chained = chained || e.members["prev"] != nil
	}
	if !chained {
		return head, errors.New("no digests: the run was recorded by an earlier version, or by hand")
	}
	for i, e := range r.list {
		prev, has := e.members["prev"]
		switch {
		case i == 0 && has:
			return head, errors.New("event 1 has an event before it, which is missing")
		case i > 0 && e.kind == kindBegin:
			return head, fmt.Errorf("event %d: it begins a second time", i+1)
		case i > 0 && !has:
			return head, fmt.Errorf("event %d (%s) has no digest of the previous event", i+1, e.kind)
		case i > 0 && string(prev) != `"`+head.String()+`"`:
			return head, fmt.Errorf("event %d (%s) does not follow event %d (%s): an event was changed, or events between them are missing, were added or were moved", i+1, e.kind, i, r.list[i-1].kind)
		case e.kind == kindEnd && e != last:
			return head, fmt.Errorf("event %d ends the run, and %d more follow", i+1, len(r.list)-i-1)
		}
		head = e.digest
	}
	if last.kind != kindEnd {
		return head, fmt.Errorf("the run has no end: the last event is %q, and the rest is missing, or the run continues", last.kind)
	}
	for i, e := range r.list {
		if string(e.members["incomplete"]) == "true" {
			return head, fmt.Errorf("according to event %d, some events could not be written", i+1)
		}
	}
	return head, nil
}

// tree is a run with the nested runs, the run itself first.
type tree []*events

// tree checks a run and the nested runs: the answer to each call of a nested run has the digest of
// the last event of the run.
func (a *runs) tree(root *events) (tree, error) {
	for _, r := range a.byID {
		r.children = nil
	}
	for _, id := range a.order {
		r := a.byID[id]
		if p := a.byID[r.parent()]; p != nil && r != root {
			p.children = append(p.children, r)
		}
	}
	var all tree
	_, err := all.add(root, 1)
	return all, err
}

func (t *tree) add(r *events, depth int) (head seal.Digest, err error) {
	if depth > abi.MaxChain+1 {
		return head, fmt.Errorf("run %s: more than %d runs call one another", r.id, abi.MaxChain+1)
	}
	*t = append(*t, r)
	if head, err = r.check(); err != nil {
		if depth > 1 {
			err = fmt.Errorf("nested run %s: %w", r.id, err)
		}
		return head, err
	}
	below := map[string]string{} // digests by the numbers of calls
	for _, e := range r.list {
		if e.kind == kindAnswer && e.members["below"] != nil {
			seq := string(e.members["seq"])
			if below[seq] != "" {
				return head, fmt.Errorf("call %s is answered twice", seq)
			}
			below[seq] = e.text("below")
		}
	}
	for _, child := range r.children {
		got, err := t.add(child, depth+1)
		if err != nil {
			return head, err
		}
		want, ok := below[child.call()]
		if !ok {
			return head, fmt.Errorf("run %s names the call %s, which does not have the run as an answer", child.id, child.call())
		}
		if want != got.String() {
			return head, fmt.Errorf("run %s, made by call %s, was changed: the last event has another digest", child.id, child.call())
		}
		delete(below, child.call())
	}
	for seq := range below {
		return head, fmt.Errorf("the run made by call %s is missing", seq)
	}
	return head, nil
}

// record decodes the runs.
func (t tree) record() (*journal.Record, error) {
	var text bytes.Buffer
	for _, r := range t {
		for _, e := range r.list {
			text.Write(e.line)
			text.WriteByte('\n')
		}
	}
	rec, err := journal.Decode(&text)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	return &rec, nil
}

// agrees checks that record and seal agree.
func (t tree) agrees(rec *journal.Record) error {
	s := t[0].list[len(t[0].list)-1].parts.Seal
	n := 0
	rec.Any(func(*journal.Record) bool { n++; return false })
	switch {
	case n != len(t):
		return fmt.Errorf("%d runs are read, but the record has %d", n, len(t))
	case rec.ID != t[0].id:
		return fmt.Errorf("run %s is read instead", rec.ID)
	case s.Outcome != rec.OutcomeName():
		return fmt.Errorf("the signature is about a run with the outcome %q, and the record has %q", s.Outcome, rec.OutcomeName())
	case s.Guest != rec.Guest:
		return fmt.Errorf("the signature is about a run with the guest %s, and the record has %s", s.Guest, rec.Guest)
	}
	return nil
}

// differsError is the error of a run that differs when executed again, or cannot be executed here.
type differsError struct{ text string }

func (e *differsError) Error() string { return e.text }

// execute executes a run again and compares.
func (o *Options) execute(ctx context.Context, rec *journal.Record, report *Report) error {
	report.Guest, report.Here = rec.Guest, sandbox.GuestDigest()
	if rec.Any(func(r *journal.Record) bool { return r.Guest != report.Here }) {
		return &differsError{fmt.Sprintf("the run was not executed again: the guest of the run is %s, and this program has %s (use the version of mcp-metatool with the guest of the run, as printed by mcp-metatool version --guest)", rec.Guest, report.Here)}
	}
	again, err := replay.Run(ctx, o.Sandbox, *rec, replay.Options{Limits: o.Limits, Log: o.Log})
	if err != nil {
		return err
	}
	report.Notes, report.Compared, report.Fuel = again.Notes, again.Compared, again.Recorded.Fuel
	report.Redacted = again.Verdict == replay.IdenticalRedacted
	switch {
	case again.Verdict != replay.Identical && again.Verdict != replay.IdenticalRedacted:
		return &differsError{"executed again, the run differs:\n" + strings.TrimRight(again.Text(), "\n")}
	case again.Cut || again.Short:
		return &differsError{"executed again, the run ends before the record"}
	}
	report.executed(&again)
	return nil
}

// event is a line.
type event struct {
	line      []byte
	kind, run string
	parts     seal.Parts
	digest    seal.Digest
	members   map[string][]byte // raw
}

// The kinds of events known to this package.
const (
	kindBegin      = "begin"
	kindAnswer     = "answer"
	kindEnd        = "end"
	kindProxied    = "proxied"
	kindCheckpoint = "checkpoint"
)

// isOfRun reports whether e is an event of a run.
func (e *event) isOfRun() bool { return e.kind != kindProxied && e.kind != kindCheckpoint }

// text returns a string member, or "".
func (e *event) text(name string) string {
	s, _ := wire.Text(e.members[name])
	return s
}

var errNoEvent = errors.New("is no event of a journal")

// parse reads a line that all readers read in the same way: the line is valid JSON in UTF-8, and no
// object of the format has a member twice. Values from clients and servers are not inspected: all
// readers take them as whole values.
func parse(line []byte) (*event, error) {
	if !utf8.Valid(line) || bytes.ContainsAny(line, "\r\x00") {
		return nil, fmt.Errorf("%w: it is not UTF-8, or has control characters", errNoEvent)
	}
	e := &event{line: line}
	var err error
	if e.kind, e.run, err = readHead(line); err != nil {
		return nil, err
	}
	if e.isOfRun() && !journal.IsKind(e.kind) {
		return nil, fmt.Errorf("run %s: it has an event of the kind %q, which this version does not understand (use the version that has written it)", e.run, e.kind)
	}
	if e.members, err = members(line); err != nil {
		return nil, fmt.Errorf("run %s: %w", e.run, err)
	}
	if err := e.checkNested(); err != nil {
		return nil, fmt.Errorf("run %s: %w", e.run, err)
	}
	if e.parts, err = seal.Cut(line); err != nil {
		return nil, fmt.Errorf("run %s: %w", e.run, err)
	}
	if err := e.checkEnds(); err != nil {
		return nil, fmt.Errorf("run %s: its event %q %w", e.run, e.kind, err)
	}
	e.digest = seal.Event(e.parts.Body)
	return e, nil
}

// readHead reads the first two members, which are always written in the same way.
func readHead(line []byte) (kind, run string, err error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"t":"`))
	if !ok {
		return "", "", errNoEvent
	}
	k, rest, ok := bytes.Cut(rest[:min(len(rest), 256)], []byte(`","run":"`))
	r, _, whole := bytes.Cut(rest, []byte{'"'})
	if !ok || !whole || !isName(k, 32) || !isName(r, 64) {
		return "", "", errNoEvent
	}
	return string(k), string(r), nil
}

// isName reports whether b can be a kind or an id.
func isName(b []byte, most int) bool {
	for _, c := range b {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(b) > 0 && len(b) <= most
}

// checkEnds checks the members of digests: none is left after the cut, and only events of the
// proper kinds have them.
func (e *event) checkEnds() error {
	if has := e.members["seal"] != nil; has != (e.parts.Seal != nil) || has && e.kind != kindEnd && e.kind != kindCheckpoint {
		return errors.New("has a seal in a place without seals, or an unreadable seal")
	}
	if has := e.members["link"] != nil; has != (e.parts.Link.Number > 0) || has && e.kind != kindEnd && e.isOfRun() {
		return errors.New("has a link in a place without links, or an unreadable link")
	}
	for _, name := range []string{"prev", "below", "continuesHead"} {
		if e.members[name] == nil {
			continue
		}
		if _, err := seal.ParseDigest(e.text(name)); err != nil {
			return fmt.Errorf("has a member %s that %w", name, err)
		}
	}
	return nil
}

// checkNested checks the objects of ours in an event.
func (e *event) checkNested() error {
	for _, path := range []string{
		"parent", "client", "plan", "definition", "definition.limits", "definition.permissions", "limits", "asked", "error",
		"decision", "decision.approval", "seal",
	} {
		raw, ok := e.members[strings.Split(path, ".")[0]], true
		for _, name := range strings.Split(path, ".")[1:] {
			raw, ok = wire.Get(raw, name)
		}
		if !ok || len(raw) == 0 || raw[0] != '{' {
			continue
		}
		if _, err := members(raw); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	list, err := wire.Elements(e.members["entries"])
	if err != nil && e.members["entries"] != nil {
		return errors.New("entries are no array")
	}
	for _, raw := range list {
		if _, err := members(raw); err != nil {
			return fmt.Errorf("entries: %w", err)
		}
	}
	return nil
}

// members returns the members of an object. Two names that differ only in case, or are forms of the
// same member, count as a single name: some readers do not tell them apart.
func members(raw []byte) (map[string][]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		return nil, errors.New("is no JSON object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	all, folded := map[string][]byte{}, map[string]bool{}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("is no JSON: %w", err)
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("is no JSON: %w", err)
		}
		one := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(name, "Text"), "Base64"))
		if folded[one] {
			return nil, fmt.Errorf("has the member %.50q twice", name)
		}
		folded[one] = true
		all[name] = bytes.Clone(value)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has text behind the object")
	}
	return all, nil
}
