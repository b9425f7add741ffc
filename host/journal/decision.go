package journal

import (
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

// decision adds policy's decision about a call, and the approval; nothing for nil.
func (l *line) decision(d *policy.Decision) {
	if d == nil {
		return
	}
	l.open("decision", '{')
	l.text("action", string(d.Action))
	l.text("rule", d.Rule)
	l.text("reason", d.Reason)
	if a := d.Approval; a != nil {
		l.open("approval", '{')
		l.text("id", a.ID)
		l.flag("allowed", a.Allowed)
		l.text("by", a.By)
		l.text("how", a.How)
		if !a.At.IsZero() {
			l.time("at", a.At)
		}
		l.number("waited", int64(a.Waited))
		l.flag("remembered", a.Remembered)
		l.text("digest", a.Digest)
		l.text("note", a.Note)
		l.close('}')
	}
	l.close('}')
}

// decision returns the member written by line.decision, or nil.
func (f fields) decision() *policy.Decision {
	o, ok := f.object("decision")
	if !ok {
		return nil
	}
	d := &policy.Decision{Action: policy.Action(o.text("action")), Rule: o.text("rule"), Reason: o.text("reason")}
	if a, ok := o.object("approval"); ok {
		d.Approval = &policy.Approval{
			ID: a.text("id"), Allowed: a.flag("allowed"), By: a.text("by"), How: a.text("how"),
			Waited: a.duration("waited"), Remembered: a.flag("remembered"), Digest: a.text("digest"), Note: a.text("note"),
		}
		if a.raw["at"] != nil {
			d.Approval.At = a.time("at")
		}
	}
	return d
}
