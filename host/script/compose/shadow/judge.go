package shadow

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// place is where a run or a shadow is: the path of the run of a saved tool, and how many batches
// with calls to sinks the run has made before. Compensations have places of their own.
type place struct {
	path  string
	index int
	undo  bool
}

// standing is how a shadow stands to the place of the run.
type standing int

const (
	same    standing = iota // the shadow is at the place, with the same calls
	other                   // the shadow is elsewhere, with other calls, or has ended without a failure
	crashed                 // the script of the shadow failed: no evidence
	stopped                 // the shadow cannot go on: limits, time, a call whose answer the shadow must not have
)

// judge compares the shadows of a label with calls before the run makes them. The caller holds
// judging.
func (t *Tree) judge(ctx context.Context, l flow.Label, at place, sinks []*Made) *Denial {
	if why := t.lost[l]; why != "" {
		return &Denial{Label: l, Type: abi.ErrPermission, Message: t.because(l) + ". The call is not compared: " + why}
	}
	if d := t.begin(l, flow.NumBlank); d != nil {
		return d
	}
	t.reach(ctx, l, at)
	if ctx.Err() != nil {
		return &Denial{Label: l, Type: abi.ErrCancelled, Message: "not made: the run had ended"}
	}
	agree, disagree := 0, false
	for _, s := range t.shadows[l] {
		switch s.standing(at, sinks) {
		case same:
			agree++
		case other, stopped:
			disagree = true
		}
	}
	if agree > 0 && !disagree {
		return nil
	}
	return t.denial(l, agree+boolean(disagree) == 0)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// begin starts the shadows of a label, unless they exist already.
func (t *Tree) begin(l flow.Label, n int) *Denial {
	if t.shadows[l] != nil {
		return nil
	}
	if !t.o.Slots.enter(t.o.Owner, n) {
		t.crowded[l] = true
		return &Denial{Label: l, Type: abi.ErrResource, Message: t.because(l) +
			". There are too many shadows of scripts now, of all clients or of this one, to find out what this one does without them (call the tool again later, or raise max_shadows in [flow])"}
	}
	if t.texts == "" {
		code := t.o.Begin.Definition.Code
		t.texts = flow.Literals(append([]string{code}, t.o.Sources(code)...)...)
	}
	order := []flow.Blank{flow.One, flow.Empty, flow.Literal, flow.Fail} // One first: see replace
	for _, blank := range order[:n] {
		t.shadows[l] = append(t.shadows[l], t.start(l, flow.Blanks{Blank: blank, Literals: t.texts}))
	}
	return nil
}

// reach lets the shadows of a label go on until each is at the place, or somewhere where the
// run has not been.
func (t *Tree) reach(ctx context.Context, l flow.Label, at place) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, t.o.Rules.Timeout-t.spent)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range t.shadows[l] {
		all.Go(func() { s.reach(ctx) })
	}
	all.Wait()
	t.spent += time.Since(begun)
}

// standing returns how the shadow stands to the next calls of the run.
func (s *shadow) standing(at place, sinks []*Made) standing {
	a := s.now
	switch {
	case a == nil: // the shadow's time is over
		return stopped
	case s.diverged:
		return other
	case a.ended:
		return endedAs(a.record.Outcome.Error)
	case s.halted():
		return stopped
	case a.at.undo && a.at.path == "" && !at.undo: // the script of the shadow has failed, and makes compensations
		return endedAs(a.failed)
	case a.at != at || len(a.calls) != len(sinks):
		return other
	}
	for i := range sinks {
		if sinks[i].Difference(&a.calls[i]) != "" {
			return other
		}
	}
	return same
}

// halted reports whether a waiting shadow was stopped, and only makes compensations.
func (s *shadow) halted() bool {
	return s.why != "" || s.now.at.undo && endedAs(s.now.failed) == stopped
}

// endedAs returns the standing of a shadow whose script has ended with the given class of error, ""
// for none.
func endedAs(class abi.ErrorType) standing {
	switch class {
	case "":
		return other
	case abi.ErrRuntime, abi.ErrTool, abi.ErrValidation:
		return crashed
	}
	return stopped
}

// passed reports whether the run has made the calls at a place before, and whether they are the
// same as the calls of a shadow.
func (t *Tree) passed(l flow.Label, at place, calls []flow.Call) (made []*Made, equal bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[at.path]
	if n == nil || len(n.sinks[l]) <= at.index {
		return nil, false
	}
	b := n.sinks[l][at.index]
	if b.undo != at.undo || len(b.made) != len(calls) {
		return b.made, false
	}
	for i := range calls {
		if b.made[i].Difference(&calls[i]) != "" {
			return b.made, false
		}
	}
	return b.made, true
}

// because returns the reason for looking at calls to sinks.
func (t *Tree) because(l flow.Label) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "flow: calls to " + l.Sink() + " sinks must not depend on " + l.String() + " answers, and " + t.first[l]
}

// denial describes the actions of the shadows at the place where the run makes a call that not all
// shadows make. The denial reveals nothing of the run.
func (t *Tree) denial(l flow.Label, all bool) *Denial {
	d := &Denial{Label: l, Type: abi.ErrPermission, Others: t.Active() &^ flow.Of(l)}
	var b strings.Builder
	b.WriteString(t.because(l))
	b.WriteString(". Not made; without such answers, the script does this here: ")
	if all {
		b.Reset()
		b.WriteString(t.because(l) + ". Not made; without such answers, the script does not come here: ")
	}
	for i, s := range t.shadows[l] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(s.describe(d.Others != 0))
	}
	d.Message = b.String()
	return d
}

// report adds an event about how each shadow stands, for the people who read the journal.
func (t *Tree) report(l flow.Label, what string) {
	for _, s := range t.shadows[l] {
		t.event(journal.FlowRecord{What: what, Label: l.String(), Text: s.describe(false)})
	}
}
