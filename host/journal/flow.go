package journal

import (
	"slices"
	"time"
)

// FlowRecord is a finding or decision of information flow about a run (package flow). People see
// the records; the agents' view of a run does not depend on them.
type FlowRecord struct {
	At   time.Duration // since the start of the run
	What string        // see the constants
	// Label is the name of a label, or names of several; "" for none.
	Label string
	// Server and Tool are the real names of the subject; "" for none.
	Server, Tool string
	// Path is the path of the run of a saved tool; see shadow.Batch.
	Path string
	Text string
	// Arguments are the arguments of a call of a shadow; nil for none.
	Arguments []byte
	// Allowed is set if a person has allowed the call, or a call of a shadow succeeded.
	Allowed bool
}

// The values of FlowRecord.What.
const (
	FlowLabel    = "label"    // the run has had the first answer with the label
	FlowSame     = "same"     // the shadows make the same call
	FlowDeny     = "deny"     // a call was not made, and the run ends
	FlowUndo     = "undo"     // a compensation was not made
	FlowAsk      = "ask"      // a person was asked about a call
	FlowReport   = "report"   // a call was made that some shadows do not make
	FlowReplace  = "replace"  // the call of a shadow was made
	FlowWithhold = "withhold" // a call of the run was not made, and the run goes on
	FlowShort    = "short"    // a shadow had more to send than the run
	FlowInherit  = "inherit"  // a server got data that may depend on labelled answers
	FlowClear    = "clear"    // result and log do not depend on the label
	FlowResult   = "result"   // the labels of result and log
)

// Flow records a finding or decision of information flow. After Close, Flow does nothing.
func (r *Run) Flow(e FlowRecord) {
	e.At = r.since()
	r.mu.Lock()
	ended := !r.end.IsZero()
	if !ended {
		r.flow = append(r.flow, e)
	}
	r.mu.Unlock()
	if !ended {
		r.disk.flow(&e)
	}
}

// Flows reports whether the record of the run has a FlowRecord with the given What.
func (r *Record) Flows(what string) bool {
	return slices.ContainsFunc(r.Flow, func(e FlowRecord) bool { return e.What == what })
}

// FlowLabels returns the names of the labels of all answers of the run, with the nested runs.
func (r *Record) FlowLabels() []string {
	var names []string
	for _, e := range r.Flow {
		if e.What == FlowLabel && !slices.Contains(names, e.Label) {
			names = append(names, e.Label)
		}
	}
	return names
}

const eventFlow = "flow"

func (d *runLog) flow(e *FlowRecord) { d.event(func() { d.line.flow(d.id, e) }) }

// flow writes the event of a FlowRecord.
func (l *line) flow(id string, e *FlowRecord) {
	l.start(eventFlow, id)
	l.number("at", int64(e.At))
	l.plain("what", e.What)
	l.text("label", e.Label)
	l.text("server", e.Server)
	l.text("tool", e.Tool)
	l.text("path", e.Path)
	l.text("text", e.Text)
	l.raw("arguments", e.Arguments)
	l.flag("allowed", e.Allowed)
	l.finish()
}

func readFlow(f fields) FlowRecord {
	return FlowRecord{
		At: f.duration("at"), What: f.text("what"), Label: f.text("label"), Server: f.text("server"), Tool: f.text("tool"),
		Path: f.text("path"), Text: f.text("text"), Arguments: f.json("arguments"), Allowed: f.flag("allowed"),
	}
}
