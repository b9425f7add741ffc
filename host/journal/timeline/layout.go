// Package timeline shows the record of a run: as text with a waterfall of the calls, and as a
// self-contained HTML page. Begin with Of, which returns the rows of both forms, with WriteText,
// and with NewView and WriteHTML for the page.
package timeline

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
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

// failure is the error of a run, in the displayed form.
type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Details struct {
		File   string
		Line   int
		Column int
		Source string
		// Violations are the violations of a schema.
		Violations []tools.Violation
	} `json:"details"`
	Stack string `json:"stack"`
}

// failureOf returns the failure of a run, nil if the run has not failed, or only asks.
func failureOf(rec *journal.Record) *failure {
	if !rec.Done || rec.Outcome.Asks || rec.Outcome.Error == "" {
		return nil
	}
	f := &failure{}
	if jsonvalue.Unmarshal(rec.Outcome.Failure, f) != nil || f.Type == "" { // an old or broken record
		*f = failure{Type: string(rec.Outcome.Error), Message: rec.Outcome.Message}
	}
	f.Type, f.Message, f.Stack = display.Text(f.Type), display.Text(f.Message), display.Text(f.Stack)
	return f
}

// maxViolations is how many violations are shown.
const maxViolations = 20

// violations returns a line for each violation of a schema.
func (f *failure) violations() []string {
	var lines []string
	for i, v := range f.Details.Violations {
		if i == maxViolations {
			return append(lines, fmt.Sprintf("and %d more", len(f.Details.Violations)-i))
		}
		lines = append(lines, display.Line(v.String(), 400))
	}
	return lines
}

// location returns the place of the error in the script, with the source line and a caret, or "".
func (f *failure) location() string {
	d := f.Details
	if d.Line <= 0 {
		return ""
	}
	text := fmt.Sprintf("at %s:%d:%d", display.Text(d.File), d.Line, d.Column)
	if d.Source == "" {
		return text
	}
	source := strings.Map(oneSpace, display.Text(d.Source))
	if d.Column < 1 || d.Column > 400 {
		return text + "\n  " + source
	}
	return text + "\n  " + source + "\n  " + strings.Repeat(" ", d.Column-1) + "^"
}

// oneSpace replaces tabs and newlines by spaces, which keeps the caret in the right column.
func oneSpace(r rune) rune {
	if r == '\n' || r == '\t' {
		return ' '
	}
	return r
}

// maxDecisions bounds the decisions shown in the head of a run.
const maxDecisions = 20

// decisions returns policy's decisions about calls of a run, with the approvers.
func decisions(t *Timeline) []Fact {
	var all []Fact
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Call == nil || row.Call.Answer.Decision == nil {
			continue
		}
		if len(all) == maxDecisions {
			return append(all, Fact{"policy", "and about more calls (runs show --json has all of them)"})
		}
		all = append(all, Fact{"policy", fmt.Sprintf("call %s, %s: %s", row.Number, row.Label, Decision(row.Call.Answer.Decision))})
	}
	return all
}

// Decision returns policy's decision about a call on one line, with the approver.
func Decision(d *journal.Decision) string {
	var b strings.Builder
	switch {
	case d.Action == string(policy.Ask):
		b.WriteString("asked for")
	case d.Action == string(policy.Allow) || d.Action == "":
		b.WriteString("allowed")
	default:
		b.WriteString("denied")
	}
	if d.Rule != "" && d.Rule != policy.DefaultRule {
		fmt.Fprintf(&b, " by the rule %q", d.Rule)
	}
	a := d.Approval
	if a == nil {
		return b.String()
	}
	switch {
	case a.By == "":
		b.WriteString(": no decision by a person")
	case a.Allowed:
		b.WriteString(": allowed by " + a.By)
	default:
		b.WriteString(": denied by " + a.By)
	}
	if a.Remembered {
		b.WriteString(" before")
	}
	if a.ID != "" {
		b.WriteString(", approval " + a.ID)
	}
	if !a.Remembered {
		b.WriteString(", after " + Duration(a.Waited))
	}
	if a.Note != "" {
		fmt.Fprintf(&b, " (%q)", a.Note)
	}
	return b.String()
}

// isViolation reports whether an error is about an exceeded limit or a refused call.
func isViolation(class abi.ErrorType) bool {
	return class == abi.ErrPermission || class == abi.ErrResource || class == abi.ErrTimeout
}

// Violations returns a line for each exceeded limit and each refused call of a run and of the
// nested runs. The error of a call is not repeated for the run that ended with this error.
func Violations(rec *journal.Record) []string { return violationsOf(rec, "") }

// violationsOf is Violations for a run with the given prefix of call numbers.
func violationsOf(rec *journal.Record, prefix string) []string {
	var lines []string
	for i := range rec.Calls {
		c := &rec.Calls[i]
		number := fmt.Sprintf("%s%d", prefix, c.Seq)
		if c.Answer.Run != nil {
			lines = append(lines, violationsOf(c.Answer.Run, number+".")...)
			continue
		}
		if e := c.Answer.Err; e != nil && isViolation(e.Type) {
			lines = append(lines, display.Line(fmt.Sprintf("call %s of %s.%s: %s: %s", number, c.Server, c.Tool, e.Type, e.Message), 300))
		}
	}
	if isViolation(rec.Outcome.Error) && len(lines) == 0 {
		where := ""
		if prefix != "" {
			where = "run of call " + prefix[:len(prefix)-1] + ": "
		}
		lines = append(lines, display.Line(fmt.Sprintf("%s%s: %s", where, rec.Outcome.Error, rec.Outcome.Message), 300))
	}
	return lines
}

// Tree is a run with the runs of the saved tools called by the script.
type Tree struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	// Call is the number of the call in the outer run; 0 for the outermost run.
	Call    int       `json:"call,omitempty"`
	Start   time.Time `json:"start"`
	Took    float64   `json:"duration"` // milliseconds
	Outcome string    `json:"outcome"`  // see journal.Record.OutcomeName
	Message string    `json:"message,omitempty"`
	Calls   int       `json:"calls"` // all calls, including calls of saved tools
	Fuel    uint64    `json:"fuel"`  // the fuel of an outermost run includes inner runs
	Memory  uint64    `json:"memory"`
	// Violations are the violations of the run and of the inner runs; see Violations.
	Violations []string `json:"violations,omitempty"`
	Runs       []Tree   `json:"runs,omitempty"`
}

// TreeOf returns the tree of a run.
func TreeOf(rec *journal.Record) Tree {
	t := Tree{
		ID: rec.ID, Tool: rec.Definition.Name, Start: rec.Start.UTC(), Took: float64(rec.Duration.Microseconds()) / 1000,
		Outcome: rec.OutcomeName(), Message: rec.Outcome.Message, Calls: len(rec.Calls),
		Fuel: rec.Outcome.Fuel, Memory: rec.Outcome.Memory, Violations: Violations(rec),
	}
	for i := range rec.Calls {
		if c := &rec.Calls[i]; c.Answer.Run != nil {
			inner := TreeOf(c.Answer.Run)
			inner.Call = c.Seq
			t.Runs = append(t.Runs, inner)
		}
	}
	return t
}

// WriteTrees writes the trees of the runs of a dialogue as text, oldest first.
func WriteTrees(w io.Writer, rounds []Tree, opts TextOptions) error {
	var b strings.Builder
	for i, t := range rounds {
		if len(rounds) > 1 {
			name := fmt.Sprintf("round %d of %d, run %s, %s", i+1, len(rounds), t.ID, display.Time(t.Start, time.Second))
			b.WriteString(opts.paint(display.Bold, name) + "\n")
		}
		t.write(&b, opts, "", "")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes a run and the inner runs. first begins the run's line, rest the lines of the inner
// runs.
func (t *Tree) write(b *strings.Builder, opts TextOptions, first, rest string) {
	name := t.Tool
	if t.Call > 0 {
		name = fmt.Sprintf("%d %s", t.Call, t.Tool)
	}
	took := Duration(time.Duration(t.Took * float64(time.Millisecond)))
	if t.Outcome == journal.Unfinished {
		took = "-"
	}
	calls := fmt.Sprintf("%d calls", t.Calls)
	if t.Calls == 1 {
		calls = "1 call"
	}
	style := display.Good
	switch t.Outcome {
	case journal.OK:
	case journal.Asks, journal.Unfinished:
		style = display.Caution
	default:
		style = display.Bad
	}
	fmt.Fprintf(b, "%s%s  %s  %s, %s, %s units of fuel\n", first, display.Line(name, 60), opts.paint(style, display.Line(t.Outcome, 20)),
		took, calls, Thousands(t.Fuel))
	below := rest
	if len(t.Runs) > 0 {
		below += "│ "
	} else {
		below += "  "
	}
	if t.Message != "" && t.Outcome != journal.Asks {
		lines := []string{display.Line(t.Message, 400)}
		if opts.Width > 0 {
			lines = display.Wrap(lines[0], max(opts.Width-display.Width(below), minBar))
		}
		for _, line := range lines {
			b.WriteString(below + opts.paint(style, line) + "\n")
		}
	}
	for i := range t.Runs {
		branch, more := "├─ ", "│  "
		if i == len(t.Runs)-1 {
			branch, more = "└─ ", "   "
		}
		t.Runs[i].write(b, opts, rest+branch, rest+more)
	}
}
