// Package timeline shows the record of a run: as text with a waterfall of the calls, and as a
// self-contained HTML page. Begin with Of, which returns the rows of both forms, with WriteText,
// and with NewView and WriteHTML for the page.
package timeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// State is the state of a call.
type State string

// The states.
const (
	Answered   State = "ok"
	Failed     State = "error"
	Unanswered State = "unanswered" // the run, or the process, ended before
)

// Row is a call in the timeline of a run.
type Row struct {
	// Number is the number of the call. A call of a nested run has the number of the calling call
	// as a prefix: "2", "2.1".
	Number string
	Depth  int    // 0 for calls of the run itself
	Label  string // server.tool
	State  State
	Undo   bool
	// Start is the time since the start of the run, Took the time until the answer or
	// the end.
	Start, Took time.Duration
	Call        *journal.CallRecord
}

// Entry is a log entry of a run or of a nested run.
type Entry struct {
	At    time.Duration // since the start of the run
	Level abi.LogLevel
	Text  string
	From  string // the saved tool of a nested run; "" for the run itself
}

// Timeline is the calls and log entries of a run, in order.
type Timeline struct {
	Length time.Duration // contains all rows and entries
	Rows   []Row
	Logs   []Entry
	Depth  int // maximum depth of the rows
}

// Of returns the timeline of a run. The Timeline points into rec.
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

// add adds the calls of a run and of nested runs. began is the start of the root run.
func (t *Timeline) add(rec *journal.Record, began time.Time, prefix string, depth int) {
	offset := rec.Start.Sub(began)
	from := ""
	if depth > 0 {
		from = rec.Definition.Name
	}
	for _, e := range rec.Logs {
		t.Logs = append(t.Logs, Entry{At: offset + e.At, Level: e.Level, Text: e.Text, From: from})
	}
	t.Depth = max(t.Depth, depth)
	for i := range rec.Calls {
		c := &rec.Calls[i]
		row := Row{
			Number: fmt.Sprintf("%s%d", prefix, c.Seq), Depth: depth, Label: c.Server + "." + c.Tool,
			State: Answered, Undo: c.Undo, Start: offset + c.Start, Took: c.Duration, Call: c,
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

// span returns the start and end of a row as fractions of the timeline, from 0 to 1.
func (t *Timeline) span(r Row) (from, to float64) {
	if t.Length <= 0 {
		return 0, 1
	}
	part := func(d time.Duration) float64 { return min(1, max(0, float64(d)/float64(t.Length))) }
	return part(r.Start), part(r.Start + r.Took)
}
