package shadow

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// With flow.Shadow, the calls of a single shadow are sent: secure multi-execution itself. The
// shadow is the shadow with one element, "0", 1 and true, and goes on as the run does. Where both
// make a call, the call of the shadow is made, and both get the answer. A call of the run alone is
// not made. The remaining calls of the shadow after the end of the run are sent then, also if the
// run came to no call of a sink for the label.

// notMade is the run's error for a call that the shadow does not make. No knowledge of the run can
// leave, so the run may know of the withheld call.
const notMade = "flow: the call is not made, since the script does not make it here without labelled answers"

// replace lets the shadow decide about the calls of a batch to sinks for a label.
func (t *Tree) replace(ctx context.Context, b *Batch, p *Permit, l flow.Label, at place, sinks []*Made) *Denial {
	if d := t.begin(l, 1); d != nil {
		return d
	}
	t.reach(ctx, l, at)
	s := t.shadows[l][0]
	calls := []flow.Call(nil)
	if s.now != nil && !s.now.ended && !s.diverged && !s.halted() && s.now.at == at {
		calls = s.now.calls
	}
	if len(calls) == len(sinks) && !t.sends(l, len(calls)) { // calls of the run alone do not count
		return t.tooMany(l)
	}
	n := 0
	for i, m := range p.Made {
		if !m.sinks.Has(l) {
			continue
		}
		if n >= len(calls) || len(calls) != len(sinks) {
			m.withheld = true
			p.Withheld[i] = notMade
			continue
		}
		call := calls[n]
		if m.Difference(&call) != "" {
			t.event(journal.FlowRecord{What: journal.FlowReplace, Label: l.String(), Server: call.Server, Tool: call.Tool, Arguments: call.Arguments})
		}
		p.Calls[i], m.Call = &call, call
		n++
	}
	if n == 0 { // the run is alone here: the place is still to come
		for i, m := range p.Made {
			if m.sinks.Has(l) {
				t.event(journal.FlowRecord{What: journal.FlowWithhold, Label: l.String(), Server: m.Server, Tool: m.Tool, Path: b.Path})
				m.sinks &^= flow.Of(l)
				m.withheld = true
				p.Withheld[i] = notMade
			}
		}
	}
	return nil
}

// complete makes the remaining calls of the shadow, after the run has ended. The caller holds
// judging.
func (t *Tree) complete(ctx context.Context, l flow.Label) {
	s := t.shadows[l][0]
	for s.now != nil && !s.now.ended && !s.diverged && !s.halted() && ctx.Err() == nil && t.o.Make != nil {
		if !t.sends(l, len(s.now.calls)) {
			return
		}
		made := make([]*Made, len(s.now.calls))
		for i, c := range s.now.calls {
			a := t.o.Make(ctx, c)
			t.event(journal.FlowRecord{What: journal.FlowReplace, Label: l.String(), Server: c.Server, Tool: c.Tool, Arguments: c.Arguments, Allowed: a.Err == nil})
			made[i] = &Made{Call: c, sinks: flow.Of(l), done: true, answer: a}
		}
		t.mu.Lock()
		for _, m := range made {
			t.told[m.Server] = t.told[m.Server].with(&m.Call)
		}
		for _, m := range made {
			m.after = t.told[m.Server]
		}
		n := t.node(s.now.at.path)
		n.sinks[l] = append(n.sinks[l], batch{s.now.at.undo, made})
		t.mu.Unlock()
		t.reach(ctx, l, place{})
	}
}

// ErrNotMade returns the error for a withheld call, from the entry of Permit.Withheld.
func ErrNotMade(server, tool, why string) *abi.CallError {
	return &abi.CallError{Type: abi.ErrTool, Server: server, Tool: tool, Message: why}
}
