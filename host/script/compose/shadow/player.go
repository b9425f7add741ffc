package shadow

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// shadow is a run of the script without the answers of a label. The goroutine of the shadow runs
// the script. The goroutine waits at every call of a sink for the label that the run has not made;
// the holder of Tree.judging lets the shadow go on.
type shadow struct {
	tree   *Tree
	label  flow.Label
	blanks flow.Blanks
	ctx    context.Context
	cancel context.CancelFunc
	at     chan arrival // from the shadow's goroutine: where the shadow waits now
	resume chan struct{}

	// Guarded by Tree.judging.
	now      *arrival // where the shadow waits; nil while the shadow runs
	diverged bool     // the shadow passed a place with other calls than the run

	// Of the shadow's goroutine; read when the shadow waits.
	workers func(n int)       // see Tape.WhileWaiting; nil: nothing
	tainted bool              // the shadow was given a blank
	wrote   map[string]bool   // servers that the shadow has written to since the first blank
	told    map[string]told   // by server
	given   map[[2]string]int // blanks so far, by server and tool
	why     string            // why the shadow cannot go on; "" if the shadow can
	failed  abi.ErrorType     // class of the script's error, once the script makes compensations
}

// arrival is where a shadow waits.
type arrival struct {
	at     place
	calls  []flow.Call   // to sinks for the shadow's label
	failed abi.ErrorType // for a compensation: the class of error with which the script has ended
	ended  bool          // the shadow is over
	record journal.Record
}

// start starts a shadow.
func (t *Tree) start(l flow.Label, blanks flow.Blanks) *shadow {
	s := &shadow{tree: t, label: l, blanks: blanks, at: make(chan arrival), resume: make(chan struct{}), wrote: map[string]bool{}, told: map[string]told{}, given: map[[2]string]int{}}
	s.ctx, s.cancel = context.WithCancel(t.ctx)
	t.count.Add(1)
	t.plays.Go(func() {
		defer s.cancel()
		record := t.o.Play(s.ctx, t.o.Begin, &Tape{s: s, meta: t.o.Begin.Meta})
		select {
		case s.at <- arrival{ended: true, record: record}:
		case <-s.ctx.Done():
		}
	})
	return s
}

// reach waits until the shadow is where the run has not been, or ctx ends.
func (s *shadow) reach(ctx context.Context) {
	for {
		if s.now == nil {
			select {
			case a := <-s.at:
				s.now = &a
			case <-ctx.Done():
				return
			}
		}
		if s.now.ended || s.diverged {
			return
		}
		made, equal := s.tree.passed(s.label, s.now.at, s.now.calls)
		if made == nil {
			return
		}
		if s.diverged = !equal; s.diverged {
			return
		}
		if !s.goOn(ctx) {
			return
		}
	}
}

// goOn lets a waiting shadow go on. The result is false if ctx has ended.
func (s *shadow) goOn(ctx context.Context) bool {
	select {
	case s.resume <- struct{}{}:
		s.now = nil
		return true
	case <-ctx.Done():
		return false
	}
}

// wait makes the goroutine of the shadow wait at a place until the goroutine may go on. The result
// is the run's calls at the place; nil if the shadow has to end.
func (s *shadow) wait(a arrival) []*Made {
	if made, equal := s.tree.passed(s.label, a.at, a.calls); equal {
		return made
	}
	if s.workers != nil {
		s.workers(-1)
		defer s.workers(1)
	}
	select {
	case s.at <- a:
	case <-s.ctx.Done():
		return nil
	}
	select {
	case <-s.resume:
	case <-s.ctx.Done():
		return nil
	}
	made, _ := s.tree.passed(s.label, a.at, a.calls)
	return made
}
