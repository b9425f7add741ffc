package verify

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
