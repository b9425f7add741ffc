package journal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// The bounds of a record, with the runs below it. They are those of runs, which
// have at most as many calls as can be configured and call each other at most so
// deep. A record of more was not written by this program.
const (
	maxRecord  = 1 << 30          // bytes of its lines
	maxCalls   = 1_000_000        // and as many of what is to be undone
	maxEntries = 4_000_000        // of logs
	maxDepth   = abi.MaxChain + 1 // runs that have called each other: code that is not saved, and saved tools
	maxServers = 10_000
)

// BoundError says that a record is larger than a run can be.
type BoundError struct {
	What  string // that there is too much of: "bytes", "calls", ...
	Limit int    // how many there may be
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("it has more than %d %s: no run has, and it is not read", e.Limit, e.What)
}

// decoding are runs that are being put together.
type decoding struct {
	runs  map[string]*decoded
	below map[string][]string // ids of the runs that a run has called

	calls, undos, entries int // of all runs together
	steps                 int // how often a call was looked at to find or to order one; for tests
}

// decoded is one run that is being put together.
type decoded struct {
	Record
	last map[int]int // index of the last call with that Seq
}

func newDecoding() *decoding {
	return &decoding{runs: map[string]*decoded{}, below: map[string][]string{}}
}

// add takes a line.
func (d *decoding) add(text []byte) error {
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
	case kind == eventProxied:
		return nil
	case rec == nil:
		return fmt.Errorf("run %s: there is no line that begins it", id)
	}
	return d.apply(rec, kind, f)
}

func (d *decoding) begin(id string, f fields) error {
	r, err := readBegin(id, f)
	if err != nil {
		return err
	}
	d.runs[r.ID] = &decoded{Record: r, last: map[int]int{}}
	if r.Parent != nil {
		d.below[r.Parent.Run] = append(d.below[r.Parent.Run], r.ID)
	}
	return nil
}

// apply adds an event other than begin.
func (d *decoding) apply(r *decoded, kind string, f fields) error {
	calls, undos, entries := len(r.Calls), len(r.Undos), len(r.Logs)
	if kind == eventAnswer {
		d.steps++
		i, ok := r.last[f.number("seq")]
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
		r.last[r.Calls[calls].Seq] = calls
	}
	d.calls += len(r.Calls) - calls
	d.undos += len(r.Undos) - undos
	d.entries += len(r.Logs) - entries
	switch {
	case d.calls > maxCalls:
		return &BoundError{"calls", maxCalls}
	case d.undos > maxCalls:
		return &BoundError{"calls that undo", maxCalls}
	case d.entries > maxEntries:
		return &BoundError{"entries of logs", maxEntries}
	}
	return nil
}

// tree is a run with the runs below it; it is the depth-th in a row.
func (d *decoding) tree(id string, depth int) (Record, error) {
	if depth > maxDepth {
		return Record{}, &BoundError{"runs that have called each other", maxDepth}
	}
	rec := d.runs[id].Record
	slices.SortStableFunc(rec.Calls, func(a, b CallRecord) int {
		d.steps++
		return cmp.Compare(a.Seq, b.Seq)
	})
	for _, child := range d.below[id] {
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
