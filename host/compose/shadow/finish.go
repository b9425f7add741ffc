package shadow

import (
	"bytes"
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Conclusion says what is known of a run that has ended.
type Conclusion struct {
	// Read are the labels of all answers, and Carried those of the result and the log: for the
	// others, shadows have shown that they do not depend on them.
	Read, Carried flow.Labels
	// Short are the labels of which a shadow had more to send than the run.
	Short flow.Labels
	// Denied is the first denial; nil for none.
	Denied *Denial
}

// Finish says what is known of the run, whose record that is, and closes the Tree. ctx is that of
// the run.
func (t *Tree) Finish(ctx context.Context, rec *journal.Record) Conclusion {
	defer t.Close()
	t.judging.Lock()
	defer t.judging.Unlock()
	c := Conclusion{Read: t.Active(), Denied: t.denied}
	c.Carried = c.Read
	if t.denied != nil {
		c.Carried = t.denied.Others
	}
	for _, l := range flow.AllLabels {
		if !c.Read.Has(l) || t.lost[l] != "" || t.denied != nil || ctx.Err() != nil {
			continue
		}
		if t.shadows[l] == nil && (t.o.Rules.Action != flow.Shadow || t.begin(l, 1) != nil) { // see replace.go
			continue
		}
		t.reach(ctx, l, place{})
		if t.o.Rules.Action == flow.Shadow {
			t.complete(ctx, l)
		}
		differs, short := t.compare(l, rec)
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
	if c.Short != 0 && t.o.Session != nil {
		t.o.Session.Flag()
	}
	return c
}

// compare compares the end of the run with those of the shadows of a label.
func (t *Tree) compare(l flow.Label, rec *journal.Record) (differs, short bool) {
	agree := 0
	for _, s := range t.shadows[l] {
		a := s.now
		switch {
		case a == nil || s.diverged:
			differs = true
		case !a.ended:
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
