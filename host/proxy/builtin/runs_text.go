package builtin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// detail limits the shown part of a run: the bytes of a value, and the number of entries.
type detail struct{ value, result, calls, logs int }

var (
	// many is for all calls. The text fits into the context of an agent: about ten thousand bytes
	// at most.
	many = detail{value: 160, result: 2000, calls: 30, logs: 30}
	// oneWhole is for a single call, in full.
	oneWhole = detail{value: 16 << 10, result: 240, calls: 1, logs: 0}
	// theLog is for part of the log.
	theLog = detail{value: 1 << 10, result: 240, calls: 0, logs: 100}
)

// maxError is how many bytes of the error of a call are always shown.
const maxError = 400

// shownRun is the answer of show_run.
type shownRun struct {
	Run      string      `json:"run"`
	Tool     string      `json:"tool"`
	Started  string      `json:"started"`
	Outcome  string      `json:"outcome"`
	Duration float64     `json:"duration,omitempty"` // ms
	Params   string      `json:"params,omitempty"`
	Calls    []shownCall `json:"calls"`
	// CallsLeftOut is the number of calls left out in the middle.
	CallsLeftOut int      `json:"callsLeftOut,omitempty"`
	Logs         []string `json:"logs"`
	LogsLeftOut  int      `json:"logsLeftOut,omitempty"` // at the beginning
	LogsToCome   int      `json:"logsToCome,omitempty"`  // after the shown ones
	Result       string   `json:"result,omitempty"`
	Error        string   `json:"error,omitempty"`
	Fuel         uint64   `json:"fuel,omitempty"`
	Memory       uint64   `json:"memory,omitempty"`
	Notes        []string `json:"notes,omitempty"` // about missing parts of the record
	Hint         string   `json:"hint,omitempty"`
}

type shownCall struct {
	Call      string  `json:"call"`
	Tool      string  `json:"tool"`
	Start     float64 `json:"start"` // ms
	Duration  float64 `json:"duration,omitempty"`
	Arguments string  `json:"arguments"`
	Answer    string  `json:"answer,omitempty"`
	Error     string  `json:"error,omitempty"`
	Undo      bool    `json:"undo,omitempty"`
}

// show shortens a run to the given detail.
func show(rec *journal.Record, lines *timeline.Timeline, d detail) shownRun {
	s := shownRun{
		Run: rec.ID, Tool: rec.Definition.Name, Started: stamp(rec.Start), Outcome: rec.OutcomeName(),
		Params: display.ClipSize(string(rec.Params), d.value), Calls: []shownCall{}, Logs: []string{},
		Notes: timeline.Gaps(rec),
	}
	rows := lines.Rows
	if left := len(rows) - d.calls; left > 0 {
		s.CallsLeftOut = left
		first := d.calls / 4 // the end mostly shows why a run failed
		rows = append(rows[:first:first], rows[first+left:]...)
	}
	for _, r := range rows {
		s.Calls = append(s.Calls, showCall(r, d.value))
	}
	logs := lines.Logs
	if left := len(logs) - d.logs; left > 0 {
		s.LogsLeftOut, logs = left, logs[left:]
	}
	for _, e := range logs {
		s.Logs = append(s.Logs, logLine(e, d.value))
	}
	if !rec.Done {
		s.Hint = "It is still running, or the server ended before the run did."
		return s
	}
	o := rec.Outcome
	s.Duration, s.Fuel, s.Memory = milliseconds(rec.Duration), o.Fuel, o.Memory
	switch {
	case o.Asks:
		s.Hint = "It asked the client something. Another run continues it when the client has answered."
	case o.Error == "":
		s.Result = display.ClipSize(string(compose.WithoutData(o.Result)), d.result)
	default:
		s.Error = display.ClipSize(failureText(o), d.result)
		s.Hint = hint(rec, lines)
	}
	return s
}

func showCall(r timeline.Row, most int) shownCall {
	c := shownCall{
		Call: r.Number, Tool: r.Label, Start: milliseconds(r.Start), Arguments: display.ClipSize(string(r.Call.Request.Arguments), most), Undo: r.Undo,
	}
	switch e := r.Call.Answer.Err; {
	case r.State == timeline.Unanswered:
		c.Error = "no answer before the run ended"
	case e != nil:
		c.Duration, c.Error = milliseconds(r.Took), display.ClipSize(string(e.Type)+" error: "+e.Message, max(most, maxError))
	default:
		c.Duration, c.Answer = milliseconds(r.Took), display.ClipSize(string(compose.WithoutData(r.Call.Answer.Value)), most)
	}
	return c
}

func logLine(e timeline.Entry, most int) string {
	text := display.ClipSize(e.Text, most)
	switch e.Level {
	case abi.LogWarn:
		text = "warning: " + text
	case abi.LogError:
		text = "error: " + text
	}
	if e.From != "" {
		text = e.From + ": " + text
	}
	return text
}

// failureText returns the error of a failed run, and the error's position.
func failureText(o journal.Outcome) string {
	f := compose.Failure{Type: o.Error, Message: o.Message}
	if line, ok := wire.Get(o.Failure, "details", "line"); ok {
		f.Position = &abi.Position{Line: wholeNumber(line)}
		f.Position.File, _ = wire.GetString(o.Failure, "details", "file")
		f.Position.Source, _ = wire.GetString(o.Failure, "details", "source")
		column, _ := wire.Get(o.Failure, "details", "column")
		f.Position.Column = wholeNumber(column)
	}
	return f.Text()
}

// hint returns advice about a failed run.
func hint(rec *journal.Record, lines *timeline.Timeline) string {
	o := rec.Outcome
	server, _ := wire.GetString(o.Failure, "details", "server")
	tool, _ := wire.GetString(o.Failure, "details", "tool")
	called := server + "." + tool
	switch o.Error {
	case abi.ErrTool:
		if server == "" {
			return ""
		}
		return fmt.Sprintf("%s failed, not the script: fix its arguments (describe_tool), or catch it with try/except ToolError as e.", called)
	case abi.ErrValidation:
		if server != "" {
			return fmt.Sprintf("describe_tool says which arguments %s takes.", called)
		}
	case abi.ErrTimeout:
		var slow timeline.Row
		for _, r := range lines.Rows {
			if r.Depth == 0 && (slow.Call == nil || r.Took > slow.Took) {
				slow = r
			}
		}
		if slow.Call == nil {
			return "It made no calls: the script itself takes long."
		}
		return fmt.Sprintf("The longest call was %s (%s), with %v ms. Calls that do not depend on each other can overlap: parallel, parallel_map.",
			slow.Number, slow.Label, milliseconds(slow.Took))
	case abi.ErrResource:
		if setting, _ := wire.GetString(o.Failure, "details", "setting"); setting != "" {
			return "The limit is " + setting + ". Work on less at a time, or have it raised."
		}
	}
	return ""
}

// text returns the run for readers.
func (s shownRun) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s of %s, started %s: %s", s.Run, s.Tool, s.Started, s.Outcome)
	if s.Outcome != journal.Unfinished {
		fmt.Fprintf(&b, " after %v ms; fuel %d, memory %s", s.Duration, s.Fuel, units.FormatSize(s.Memory))
	}
	fmt.Fprintf(&b, "\nparams %s\n", s.Params)
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	s.body(&b)
	return b.String()
}

// body writes the calls, logs and outcome of a run.
func (s shownRun) body(b *strings.Builder) {
	b.WriteString("calls:")
	switch {
	case len(s.Calls) == 0 && s.CallsLeftOut > 0:
		fmt.Fprintf(b, " (%d left out)", s.CallsLeftOut)
	case len(s.Calls) == 0:
		b.WriteString(" none")
	}
	b.WriteByte('\n')
	for i, c := range s.Calls {
		if s.CallsLeftOut > 0 && i == len(s.Calls)/4 {
			fmt.Fprintf(b, "  (%d calls left out)\n", s.CallsLeftOut)
		}
		answer := c.Answer
		if c.Error != "" {
			answer = c.Error
		}
		fmt.Fprintf(b, "  %s %s %s -> %s", c.Call, c.Tool, c.Arguments, answer)
		fmt.Fprintf(b, " (at %v ms, took %v ms", c.Start, c.Duration)
		if c.Undo {
			b.WriteString(", undo")
		}
		b.WriteString(")\n")
	}
	if len(s.Logs) > 0 {
		b.WriteString("logs:\n")
		if s.LogsLeftOut > 0 {
			fmt.Fprintf(b, "  (%d entries left out)\n", s.LogsLeftOut)
		}
		for _, l := range s.Logs {
			b.WriteString("  " + strings.ReplaceAll(l, "\n", "\n  ") + "\n")
		}
		if s.LogsToCome > 0 {
			fmt.Fprintf(b, "  (%d more, from {\"log\": %d} on)\n", s.LogsToCome, s.LogsLeftOut+len(s.Logs)+1)
		}
	}
	switch {
	case s.Error != "":
		b.WriteString(s.Error + "\n")
	case s.Result != "":
		b.WriteString("result: " + s.Result + "\n")
	}
	if s.Hint != "" {
		b.WriteString("hint: " + s.Hint + "\n")
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// wholeNumber returns the value of a JSON number; a schema has checked that the number is whole.
func wholeNumber(raw []byte) int {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0
	}
	return int(f)
}
