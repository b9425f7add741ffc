// Package timeline shows the record of a run to people: as text with a waterfall
// of its calls, and as a page that needs nothing but a browser.
//
//	layout.go   what happened when: rows for both
//	failure.go  the error that a run ended with
//	text.go     the text
//	html.go     the page; page.html is its template, page.css how it looks
//	clean.go    values of JSON, cut to what is shown
package timeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// State is what became of a call.
type State string

// The states.
const (
	Answered   State = "ok"
	Failed     State = "error"
	Unanswered State = "unanswered" // the run, or the process, ended before
)

// Row is one call in the timeline of a run.
type Row struct {
	// Number is the call's, after that of the call whose saved tool made it:
	// "2", "2.1".
	Number string
	Depth  int    // 0 for calls of the run itself
	Label  string // server.tool
	State  State
	Undo   bool
	// Start is since the start of the run, Took until the answer or the end.
	Start, Took time.Duration
	Call        *journal.CallRecord
}

// Entry is an entry of the log of a run, or of one below it.
type Entry struct {
	At    time.Duration // since the start of the run
	Level abi.LogLevel
	Text  string
	From  string // the saved tool that a call ran; "" for the run itself
}

// A Timeline is what happened in a run, in order.
type Timeline struct {
	Length time.Duration // all there is lies within it
	Rows   []Row
	Logs   []Entry
	Depth  int // the deepest row's
}

// Of lays out a run. The timeline points into rec.
func Of(rec *journal.Record) *Timeline {
	t := &Timeline{Length: rec.Duration}
	t.add(rec, rec.Start, "", 0)
	slices.SortStableFunc(t.Logs, func(a, b Entry) int { return int(a.At - b.At) })
	for _, r := range t.Rows {
		t.Length = max(t.Length, r.Start+r.Took)
	}
	for _, e := range t.Logs {
		t.Length = max(t.Length, e.At)
	}
	for i := range t.Rows {
		if r := &t.Rows[i]; r.State == Unanswered {
			r.Took = t.Length - r.Start
		}
	}
	return t
}

// add adds the calls of a run that began at its time, or below it.
func (t *Timeline) add(rec *journal.Record, began time.Time, prefix string, depth int) {
	late := rec.Start.Sub(began)
	from := ""
	if depth > 0 {
		from = rec.Definition.Name
	}
	for _, e := range rec.Logs {
		t.Logs = append(t.Logs, Entry{At: late + e.At, Level: e.Level, Text: e.Text, From: from})
	}
	t.Depth = max(t.Depth, depth)
	for i := range rec.Calls {
		c := &rec.Calls[i]
		row := Row{
			Number: fmt.Sprintf("%s%d", prefix, c.Seq), Depth: depth, Label: c.Server + "." + c.Tool,
			State: Answered, Undo: c.Undo, Start: late + c.Start, Took: c.Duration, Call: c,
		}
		switch {
		case !c.Done:
			row.State = Unanswered
		case c.Answer.Err != nil:
			row.State = Failed
		}
		t.Rows = append(t.Rows, row)
		if c.Answer.Run != nil {
			t.add(c.Answer.Run, began, row.Number+".", depth+1)
		}
	}
}

// span is where a row lies in a timeline, in parts of it from 0 to 1.
func (t *Timeline) span(r Row) (from, to float64) {
	if t.Length <= 0 {
		return 0, 1
	}
	part := func(d time.Duration) float64 { return min(1, max(0, float64(d)/float64(t.Length))) }
	return part(r.Start), part(r.Start + r.Took)
}
