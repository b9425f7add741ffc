package shadow

import (
	"bytes"
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Conclusion is the knowledge about an ended run.
type Conclusion struct {
	// Read are the labels of all answers, and Carried the labels of the result and the log: shadows
	// have shown that the result and the log do not depend on the labels missing in Carried.
	Read, Carried flow.Labels
	// Short are the labels of which a shadow had more to send than the run.
	Short flow.Labels
	// Denied is the first denial; nil for none.
	Denied *Denial
}

// lateTime is how long shadows may take after a cancelled run.
const lateTime = time.Second

// Finish returns the Conclusion about the run with the record rec, and closes the Tree. ctx is the
// context of the run. If ctx has ended, over reports that the run does not go on later or
// elsewhere.
//
// A run that came to no sink has no shadows yet. If the script may call a sink, the shadows begin
// now: otherwise information that the run conveys by not calling the sink would not be noticed.
func (t *Tree) Finish(ctx context.Context, rec *journal.Record, over bool) Conclusion {
	defer t.Close()
	t.judging.Lock()
	defer t.judging.Unlock()
	c := Conclusion{Read: t.Active(), Denied: t.denied}
	c.Carried = c.Read
	if t.denied != nil {
		c.Carried = t.denied.Others
		return c
	}
	if ctx.Err() != nil {
		if !over || t.o.Rules.Action == flow.Shadow { // nothing more is sent
			return c
		}
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTime)
		defer cancel()
		ctx = late
	}
	for _, l := range flow.AllLabels {
		if c.Read.Has(l) && t.lost[l] == "" {
			t.conclude(ctx, l, rec, &c)
		}
	}
	if c.Short != 0 && t.o.Session != nil {
		t.o.Session.Flag()
	}
	return c
}

// conclude adds to c the findings of a label's shadows when the run has ended.
func (t *Tree) conclude(ctx context.Context, l flow.Label, rec *journal.Record, c *Conclusion) {
	if t.shadows[l] == nil {
		if t.crowded[l] || !t.mayCall(ctx, l) { // the run was refused a call, or has none to make
			return
		}
		n := flow.NumBlank
		if t.o.Rules.Action == flow.Shadow { // see replace.go
			n = 1
		}
		if t.begin(l, n) != nil { // a client could cause the lack of room
			c.Short |= flow.Of(l)
			t.event(journal.FlowRecord{What: journal.FlowShort, Label: l.String(), Text: "there was no room for shadows to find out whether they would call a sink"})
			return
		}
	}
	t.reach(ctx, l, place{})
	if t.o.Rules.Action == flow.Shadow {
		t.complete(ctx, l)
	}
	differs, short := t.compare(l, rec, ctx.Err() != nil)
	if short {
		c.Short |= flow.Of(l)
		t.event(journal.FlowRecord{What: journal.FlowShort, Label: l.String()})
		t.report(l, journal.FlowShort)
	}
	if !differs {
		c.Carried &^= flow.Of(l)
		t.event(journal.FlowRecord{What: journal.FlowClear, Label: l.String()})
	}
}

// mayCall reports whether the script, or a saved tool called by the script, can call a sink for a
// label.
func (t *Tree) mayCall(ctx context.Context, l flow.Label) bool {
	if !t.o.Rules.HasSinks(l) {
		return false
	}
	if t.targets == nil {
		targets := []string{"*"}
		if t.o.Targets != nil {
			targets = t.o.Targets(ctx)
		}
		t.targets = &targets
	}
	return t.o.Rules.MayCall(l, *t.targets)
}

// compare compares the end of the run with the ends of a label's shadows. late reports that the
// time was too short for all shadows.
func (t *Tree) compare(l flow.Label, rec *journal.Record, late bool) (differs, short bool) {
	agree := 0
	for _, s := range t.shadows[l] {
		a := s.now
		switch {
		case a == nil || s.diverged:
			differs, short = true, short || late && !s.diverged
		case !a.ended, s.why != "": // with other answers, the run might have let the shadow go on to a sink
			differs, short = true, true
		case endedAs(a.record.Outcome.Error) == crashed:
		case a.record.Outcome.Error == "" && sameEnd(rec, &a.record):
			agree++
		default:
			differs = true
		}
	}
	return differs || agree == 0, short
}

// sameEnd reports whether two runs have succeeded with the same result and the same log.
func sameEnd(a, b *journal.Record) bool {
	if a.Outcome.Error != "" || b.Outcome.Error != "" || len(a.Logs) != len(b.Logs) || !bytes.Equal(a.Outcome.Result, b.Outcome.Result) {
		return false
	}
	for i := range a.Logs {
		if a.Logs[i].Level != b.Logs[i].Level || a.Logs[i].Text != b.Logs[i].Text {
			return false
		}
	}
	return true
}
