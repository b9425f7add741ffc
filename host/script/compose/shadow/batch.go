package shadow

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Batch is a batch of calls before a run makes the calls.
type Batch struct {
	// Path is the path of the run: "" for the root, and the result of Made.Path for the run of a
	// saved tool.
	Path  string
	Undo  bool // the batch is a compensation
	Calls []Request
}

// Request is a call of a batch.
type Request struct {
	flow.Call // with the real names; see Failed
	// Failed reports that the call will not be made, since the tool is unknown.
	Failed bool
	// Repeated reports that the call was made and answered before, by the run that this run
	// continues, so that nothing is decided about the call.
	Repeated bool
	// Ask asks a person whether the call may be made. rule identifies the question, and reason
	// explains the question. The error is the reason for a refusal, or the cause of ctx.
	Ask func(ctx context.Context, rule, reason string) error
}

// Denial is the reason why no call of a batch is made.
type Denial struct {
	Label flow.Label
	// Type is abi.ErrPermission, or abi.ErrResource without room for shadows, or another type if
	// the run ends.
	Type abi.ErrorType
	// Message has nothing of the run: only the shadows' own calls and errors.
	Message string
	// Others are the labels that the message may have: the labels of the shadows' answers.
	Others flow.Labels
}

// Permit is the decision about the calls of a batch, by their index.
type Permit struct {
	Made []*Made
	// Calls of a shadow are made in place of the run's calls; nil for the run's call.
	Calls []*flow.Call
	// Withheld are errors for withheld calls.
	Withheld []string
}

// Admit decides about a batch. After a Denial, no call of the batch may be made.
func (t *Tree) Admit(ctx context.Context, b Batch) (Permit, *Denial) {
	t.judging.Lock()
	defer t.judging.Unlock()
	t.defs.look()
	p := Permit{Made: make([]*Made, len(b.Calls)), Calls: make([]*flow.Call, len(b.Calls)), Withheld: make([]string, len(b.Calls))}
	for i := range b.Calls {
		c := &b.Calls[i]
		m := &Made{Call: c.Call}
		if !c.Failed && c.Server != abi.Composites {
			m.sinks = t.o.Rules.Sinks(c.Server, c.Tool)
		}
		p.Made[i] = m
	}
	if d := t.unknown(p.Made); d != nil {
		return Permit{}, d
	}
	if t.denied != nil && !b.Undo { // another saved tool in parallel: the run ends
		return Permit{}, t.denied
	}
	active, conflict := t.Active(), false
	for _, l := range flow.AllLabels {
		sinks := sinksOf(p.Made, l)
		if len(sinks) == 0 || !active.Has(l) {
			continue
		}
		if d := t.gate(ctx, &b, &p, l, sinks, &conflict); d != nil {
			return Permit{}, t.deny(&b, sinks[0], d)
		}
	}
	if d := t.inherit(ctx, &b, p.Made, active); d != nil {
		return Permit{}, d
	}
	t.register(&b, p.Made, active)
	return p, nil
}

// unknown refuses calls of sinks as long as the servers with labels are not known.
func (t *Tree) unknown(all []*Made) *Denial {
	for _, m := range all {
		if m.sinks != 0 && t.o.Unknown != nil {
			return &Denial{Type: abi.ErrResource, Message: fmt.Sprintf("flow: calls to sinks cannot be made now: it is not known which servers were given labelled answers before: %v", t.o.Unknown)}
		}
	}
	return nil
}

// sinksOf returns the calls of a batch to sinks for a label.
func sinksOf(all []*Made, l flow.Label) (sinks []*Made) {
	for _, m := range all {
		if m.sinks.Has(l) {
			sinks = append(sinks, m)
		}
	}
	return sinks
}

// gate decides about the calls of a batch to sinks for an active label. The caller holds judging.
func (t *Tree) gate(ctx context.Context, b *Batch, p *Permit, l flow.Label, sinks []*Made, replaced *bool) *Denial {
	replaces := t.o.Rules.Action == flow.Shadow && !b.Undo && t.lost[l] == "" // counts the calls sent by the shadow
	full := !replaces && !t.sends(l, len(sinks))
	if repeated(b, p.Made, l) { // the decision was made then; the shadows check that they find the same
		return nil
	}
	if full {
		return t.tooMany(l)
	}
	if t.o.Planned != nil && t.o.Planned() {
		return nil
	}
	at := place{b.Path, t.index(b.Path, l), b.Undo}
	action := t.o.Rules.Action
	if replaces {
		if *replaced {
			return &Denial{Label: l, Type: abi.ErrPermission, Message: t.because(l) + ". Both labels care about the call, so that no shadow can make it"}
		}
		*replaced = true
		return t.replace(ctx, b, p, l, at, sinks)
	}
	d := t.judge(ctx, l, at, sinks)
	switch {
	case d == nil && action != flow.Report && t.mustAsk():
		return t.ask(ctx, b, p, l, t.o.Rules.AskRule(l, true),
			t.because(l)+". Without them the script makes the same call, but something else was tried in this session before")
	case d == nil:
		t.event(journal.FlowRecord{What: journal.FlowSame, Label: l.String(), Server: sinks[0].Server, Tool: sinks[0].Tool})
		return nil
	case d.Type != abi.ErrPermission:
		return d
	case action == flow.Report:
		t.event(journal.FlowRecord{What: journal.FlowReport, Label: l.String(), Server: sinks[0].Server, Tool: sinks[0].Tool, Text: d.Message})
		t.lose(l, "a call that differs was reported and made")
		return nil
	case action == flow.Ask:
		if refused := t.ask(ctx, b, p, l, t.o.Rules.AskRule(l, false), d.Message); refused != nil {
			return refused
		}
		t.lose(l, "a call that differs was made, since a person has allowed it")
		return nil
	}
	return d
}

// sends counts calls to sinks for a label, and reports whether the number is permitted.
func (t *Tree) sends(l flow.Label, n int) bool {
	t.gated[l] += n
	return t.gated[l] <= t.o.Rules.MaxSinkCalls
}

func (t *Tree) tooMany(l flow.Label) *Denial {
	return &Denial{Label: l, Type: abi.ErrPermission, Message: fmt.Sprintf(
		"%s. The run would make more than %d such calls (max_sink_calls in [flow])", t.because(l), t.o.Rules.MaxSinkCalls)}
}

// repeated reports whether all calls of a batch to sinks for a label were made before.
func repeated(b *Batch, all []*Made, l flow.Label) bool {
	for i, m := range all {
		if m.sinks.Has(l) && !b.Calls[i].Repeated {
			return false
		}
	}
	return true
}

// mustAsk reports whether a person has to decide even about a call that shadows make, too: not
// about compensations of a denied run, for which no person would be present in time.
func (t *Tree) mustAsk() bool {
	return t.denied == nil && t.o.Session != nil && t.o.Rules.Again == flow.AskAgain && t.o.Session.Flagged()
}

// ask asks a person about each call of a batch to sinks for a label.
func (t *Tree) ask(ctx context.Context, b *Batch, p *Permit, l flow.Label, rule, reason string) *Denial {
	for i, m := range p.Made {
		if !m.sinks.Has(l) {
			continue
		}
		err := errors.New("nobody can be asked")
		if b.Calls[i].Ask != nil {
			err = b.Calls[i].Ask(ctx, rule, reason)
		}
		t.event(journal.FlowRecord{What: journal.FlowAsk, Label: l.String(), Server: m.Server, Tool: m.Tool, Allowed: err == nil, Text: reason})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return &Denial{Label: l, Type: abi.ErrCancelled, Message: "not made: the run had ended"}
		default:
			// The person's answer, and the fact of the question about this call, may be known.
			return &Denial{Label: l, Type: abi.ErrPermission, Message: t.because(l) + ". A person had to allow the call, and has not"}
		}
	}
	return nil
}

// deny notes a denial. A denied compensation ends nothing: the run has failed already, and the
// reply has the labels of the answers read by the run.
func (t *Tree) deny(b *Batch, first *Made, d *Denial) *Denial {
	if d.Type != abi.ErrPermission {
		return d
	}
	what := journal.FlowDeny
	if b.Undo {
		what = journal.FlowUndo
	} else if t.denied == nil {
		t.denied = d
	}
	t.event(journal.FlowRecord{What: what, Label: d.Label.String(), Server: first.Server, Tool: first.Tool, Path: b.Path, Text: d.Message})
	if t.o.Session != nil {
		t.o.Session.Flag()
	}
	return d
}

// lose notes that a label's calls can no longer be compared, and lets the label's shadows go.
func (t *Tree) lose(l flow.Label, why string) {
	t.lost[l] = why
	for _, s := range t.shadows[l] {
		s.cancel()
	}
	t.o.Slots.leave(t.o.Owner, len(t.shadows[l]))
	t.shadows[l] = nil
}

// index returns the number of the next batch of a run with calls to sinks for a label.
func (t *Tree) index(path string, l flow.Label) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.node(path).sinks[l])
}

// dependent returns the active labels on which the call may depend in a way not ruled out by
// comparing.
func (t *Tree) dependent(m *Made, active flow.Labels) flow.Labels {
	set := active
	for _, l := range flow.AllLabels {
		if m.sinks.Has(l) && t.lost[l] == "" {
			set &^= flow.Of(l)
		}
	}
	return set
}

// inherit makes sure that later runs know which servers are given data that depends on labels.
func (t *Tree) inherit(ctx context.Context, b *Batch, all []*Made, active flow.Labels) *Denial {
	if t.o.Keep == nil || active == 0 {
		return nil
	}
	for i, m := range all {
		set := t.dependent(m, active)
		if b.Calls[i].Failed || m.withheld || m.Server == abi.Composites || set == 0 || t.o.Rules.ReadsOnly(m.Server, m.Tool) {
			continue
		}
		t.mu.Lock()
		known := t.kept[m.Server] | t.o.Rules.Inherited[m.Server]
		t.mu.Unlock()
		if known|set == known {
			continue
		}
		if err := t.o.Keep(ctx, m.Server, set); err != nil {
			return &Denial{Type: abi.ErrResource, Message: fmt.Sprintf("flow: server %q would be given what may depend on labelled answers (%s), and that cannot be kept: %v", m.Server, set, err), Others: active}
		}
		t.mu.Lock()
		t.kept[m.Server] |= set
		t.mu.Unlock()
		t.event(journal.FlowRecord{What: journal.FlowInherit, Label: set.String(), Server: m.Server})
	}
	return nil
}

// register adds the calls of a batch to the record of the run's calls.
func (t *Tree) register(b *Batch, all []*Made, active flow.Labels) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.node(b.Path)
	for i, m := range all { // the batch's writes first: a read in the batch may see the written data
		if !b.Calls[i].Failed && !m.withheld && m.Server != abi.Composites && !t.o.Rules.ReadsOnly(m.Server, m.Tool) {
			for _, l := range flow.AllLabels {
				if t.dependent(m, active).Has(l) {
					t.written[l][m.Server] = true
					t.defs.give(m.Server)
				}
			}
		}
	}
	for i, m := range all {
		if !b.Calls[i].Failed && !m.withheld && m.Server != abi.Composites {
			t.told[m.Server] = t.told[m.Server].with(&m.Call)
		}
	}
	for _, m := range all {
		m.after = t.told[m.Server]
		for _, l := range flow.AllLabels {
			if t.written[l][m.Server] {
				m.stale |= flow.Of(l)
			}
		}
		if m.Server == abi.Composites {
			m.child = childPath(b.Path, m.Tool, n.tools[m.Tool])
			n.tools[m.Tool]++
		}
	}
	for _, l := range flow.AllLabels {
		if sinks := sinksOf(all, l); len(sinks) > 0 {
			n.sinks[l] = append(n.sinks[l], batch{b.Undo, sinks})
		}
	}
	if !b.Undo {
		n.calls = append(n.calls, all...)
	}
}
