package journal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
)

// The bounds of a record with its nested runs. They follow from the limits on runs: the
// configurable number of calls, and the nesting of runs. This program does not write larger
// records.
const (
	maxRecord  = 1 << 30          // bytes of the lines of the record
	maxCalls   = 1_000_000        // calls, and as many compensations
	maxEntries = 4_000_000        // log entries
	maxDepth   = abi.MaxChain + 1 // nested runs: unsaved code, then saved tools
	maxServers = 10_000
)

// BoundError means that a record is larger than any run.
type BoundError struct {
	What  string // the excessive part: "bytes", "calls", ...
	Limit int    // how many are allowed
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("the record has more than %d %s, above the bounds of a run, and is not read", e.Limit, e.What)
}

// decoder builds records from the lines of a journal.
type decoder struct {
	runs     map[string]*partialRun
	children map[string][]string // ids of the runs called by a run

	calls, undos, entries, inputs int // in all runs together
	steps                         int // number of calls examined in searches and sorts; for tests
	lines                         int // how many were added; for tests
}

// partialRun is a run during decoding.
type partialRun struct {
	Record
	lastCall map[int]int // index of the last call with the Seq
}

func newDecoder() *decoder {
	return &decoder{runs: map[string]*partialRun{}, children: map[string][]string{}}
}

// add decodes one line.
func (d *decoder) add(text []byte) error {
	d.lines++
	f, err := readFields(text)
	if errors.Is(err, errNoObject) {
		return errNoEvent
	}
	if err != nil {
		return err
	}
	id, kind := f.text("run"), f.text("t")
	if *f.err != nil || kind == "" || !isID([]byte(id)) {
		return errNoEvent
	}
	rec := d.runs[id]
	switch {
	case kind == eventBegin && rec != nil:
		return fmt.Errorf("run %s begins a second time", id)
	case kind == eventBegin:
		return d.begin(id, f)
	case kind == eventProxied, kind == eventCheckpoint:
		return nil
	case rec == nil:
		return fmt.Errorf("run %s: the first line is missing", id)
	}
	if kind == eventEnd && f.raw["prev"] != nil {
		if p, err := seal.Cut(text); err == nil { // else the line can still be read
			rec.Head, rec.Seal = seal.Event(p.Body).String(), p.Seal
		}
	}
	return d.apply(rec, kind, f)
}

func (d *decoder) begin(id string, f fields) error {
	r, err := readBegin(id, f)
	if err != nil {
		return err
	}
	d.runs[r.ID] = &partialRun{Record: r, lastCall: map[int]int{}}
	if r.Parent != nil {
		d.children[r.Parent.Run] = append(d.children[r.Parent.Run], r.ID)
	}
	return nil
}

// apply adds an event other than begin.
func (d *decoder) apply(r *partialRun, kind string, f fields) error {
	calls, undos, entries, inputs := len(r.Calls), len(r.Undos), len(r.Logs), len(r.Inputs)
	if kind == eventAnswer {
		d.steps++
		i, ok := r.lastCall[f.number("seq")]
		if !ok { // the line of the call is missing
			r.Incomplete = true
			return *f.err
		}
		r.Calls[i].answer(f)
	}
	if err := r.Record.apply(kind, f); err != nil {
		return err
	}
	if len(r.Calls) > calls {
		r.lastCall[r.Calls[calls].Seq] = calls
	}
	d.calls += len(r.Calls) - calls
	d.undos += len(r.Undos) - undos
	d.entries += len(r.Logs) - entries
	d.inputs += len(r.Inputs) - inputs
	switch {
	case d.calls > maxCalls:
		return &BoundError{"calls", maxCalls}
	case d.undos > maxCalls:
		return &BoundError{"compensations", maxCalls}
	case d.inputs > maxCalls:
		return &BoundError{"questions", maxCalls}
	case d.entries > maxEntries:
		return &BoundError{"log entries", maxEntries}
	}
	return nil
}

// tree returns a run with the known nested runs. Later lines do not change the result. depth is the
// level of the run in the tree, from 1.
func (d *decoder) tree(id string, depth int) (Record, error) {
	if depth > maxDepth {
		return Record{}, &BoundError{"nested runs", maxDepth}
	}
	rec := d.runs[id].Record
	rec.Calls = slices.Clone(rec.Calls) // lastCall has the places of earlier calls
	slices.SortStableFunc(rec.Calls, func(a, b CallRecord) int {
		d.steps++
		return cmp.Compare(a.Seq, b.Seq)
	})
	for _, child := range d.children[id] {
		run, err := d.tree(child, depth+1)
		if err != nil {
			return Record{}, err
		}
		i, found := slices.BinarySearchFunc(rec.Calls, run.Parent.Call, func(c CallRecord, seq int) int {
			d.steps++
			return cmp.Compare(c.Seq, seq)
		})
		if found {
			rec.Calls[i].Answer.Run = &run
		}
	}
	return rec, nil
}
