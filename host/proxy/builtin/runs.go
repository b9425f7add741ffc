package builtin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Runs are the records of runs.
type Runs interface {
	// Each calls f for the runs that match the filter, newest first, until f returns false.
	Each(ctx context.Context, owner any, filter journal.Filter, f func(*journal.Record) bool) error
}

// JournalRuns are the Runs in a journal.
type JournalRuns struct {
	Journal journal.Reader
	// Since is when the process started, before any session. Older records are not
	// read.
	Since time.Time
	// Budget has the memory of the records that are read; nil: there is no limit.
	Budget *budget.Budget
}

// Each implements Runs. Unreadable records are left out, unless all are unreadable.
func (j JournalRuns) Each(ctx context.Context, owner any, filter journal.Filter, f func(*journal.Record) bool) error {
	var faults []error
	if filter.Since.Before(j.Since) {
		filter.Since = j.Since
	}
	read := j.Journal
	read.Room = journal.RoomIn(j.Budget, owner)
	found := false
	for rec, err := range read.Scan(ctx, filter) {
		var full *journal.RoomError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &full) && full.Run == "": // the list would end here
			return err
		case err != nil:
			faults = append(faults, err)
			continue
		}
		if found = true; !f(&rec) {
			return nil
		}
	}
	if !found {
		return errors.Join(faults...)
	}
	return nil
}

// Limits of list_runs, in runs.
const (
	defaultRuns = 20
	maxRuns     = 100
)

func listRunsTool(name string, _ []byte) mcp.Tool {
	return define(name, "List runs",
		"List the runs of scripts in this session, newest first.",
		fmt.Sprintf(`{
			"type": "object",
			"properties": {
				"tool": {"type": "string", "description": "A saved tool, or eval_starlark."},
				"outcome": {"enum": ["ok", "failed", "unfinished", "validation", "runtime", "tool", "timeout", "resource", "cancelled", "permission", "internal"], "description": "\"failed\" is any error."},
				"since": {"type": "string", "description": "\"10m\", \"2h\""},
				"limit": {"type": "integer", "minimum": 1, "maximum": %d, "default": %d}
			},
			"additionalProperties": false
		}`, maxRuns, defaultRuns),
		`{
			"type": "object",
			"properties": {
				"runs": {"type": "array", "items": {
					"type": "object",
					"properties": {
						"run": {"type": "string", "description": "Its id."},
						"tool": {"type": "string"},
						"started": {"type": "string"},
						"outcome": {"type": "string", "description": "ok, unfinished, or the type of the error."},
						"duration": {"type": "number", "description": "milliseconds"},
						"calls": {"type": "integer"},
						"error": {"type": "string"}
					},
					"required": ["run", "tool", "started", "outcome", "calls"]
				}},
				"more": {"type": "boolean", "description": "There may be older ones."}
			},
			"required": ["runs"]
		}`,
		hints{readOnly: true, idempotent: true})
}

// runList is the answer of list_runs.
type runList struct {
	Runs []listedRun `json:"runs"`
	More bool        `json:"more,omitempty"`
}

type listedRun struct {
	Run      string  `json:"run"`
	Tool     string  `json:"tool"`
	Started  string  `json:"started"`
	Outcome  string  `json:"outcome"`
	Duration float64 `json:"duration,omitempty"` // ms
	Calls    int     `json:"calls"`
	Error    string  `json:"error,omitempty"`
}

func (h *Handler) listRuns(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	f, failed, err := runFilter(args, call)
	if err != nil {
		return wire.Reply{}, err
	}
	var l runList
	var labels []string
	if l.Runs, l.More, labels, err = h.findRuns(ctx, budgetKey(call), f, failed); err != nil {
		return wire.Reply{}, err
	}
	return h.labelled(wire.Reply{Result: compose.TextResult(l.text(), wire.Marshal(l))}, call, labels), nil
}

// runFilter returns the filter in the arguments of list_runs, and whether only failed runs are
// wanted.
func runFilter(args []byte, call route.Call) (f journal.Filter, failed bool, err error) {
	if f.Session, err = ownSession(call); err != nil {
		return f, false, err
	}
	f.Tool, _ = wire.GetString(args, "tool")
	f.Outcome, _ = wire.GetString(args, "outcome")
	if f.Outcome == "failed" {
		f.Outcome, failed = "", true
	}
	if since, ok := wire.GetString(args, "since"); ok {
		d, err := units.ParseDuration(since)
		if err != nil {
			return f, false, &compose.Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("since %q %v", since, err)}
		}
		f.Since = time.Now().Add(-d)
	}
	f.Limit = defaultRuns
	if raw, ok := wire.Get(args, "limit"); ok {
		f.Limit = wholeNumber(raw)
	}
	return f, failed, nil
}

// findRuns returns the runs that match f; more says that the limit left some out. labels are the
// labels of the returned descriptions.
func (h *Handler) findRuns(ctx context.Context, owner any, f journal.Filter, failed bool) (_ []listedRun, more bool, labels []string, err error) {
	limit := f.Limit
	if f.Limit++; failed {
		f.Limit = 0 // the journal cannot filter by failure
	}
	list := []listedRun{}
	err = h.cfg.Runs.Each(ctx, owner, f, func(r *journal.Record) bool {
		if r.Client.Session != f.Session || failed && (!r.Done || r.Outcome.Asks || r.Outcome.Error == "") {
			return true
		}
		if more = len(list) == limit; more {
			return false
		}
		list = append(list, listRun(r))
		if !isWithheld(r) {
			labels = addLabels(labels, r)
		}
		return true
	})
	if err != nil {
		return nil, false, nil, unreadable(err)
	}
	return list, more, labels, nil
}

// unreadable returns the failure for records too large for the memory. Other errors are returned
// unchanged.
func unreadable(err error) error {
	var large *budget.TooLargeError
	if errors.As(err, &large) || errors.Is(err, journal.ErrNoRoom) {
		return &compose.Failure{Type: abi.ErrResource, Message: limits.Explain(err)}
	}
	return err
}

// listRun returns a run for list_runs.
func listRun(r *journal.Record) listedRun {
	l := listedRun{
		Run: r.ID, Tool: r.Definition.Name, Started: r.Start.UTC().Format("2006-01-02T15:04:05.000Z"),
		Outcome: r.OutcomeName(), Calls: len(r.Calls),
	}
	if isWithheld(r) {
		l.Outcome, l.Calls, l.Error = string(abi.ErrPermission), 0, "ended by information flow (show_run says more)"
		return l
	}
	if r.Done {
		l.Duration, l.Error = milliseconds(r.Duration), display.ClipSize(r.Outcome.Message, 200)
	}
	return l
}

// text returns the list for readers, one line for each run.
func (l runList) text() string {
	if len(l.Runs) == 0 {
		return "No such runs in this session."
	}
	var b strings.Builder
	for _, r := range l.Runs {
		fmt.Fprintf(&b, "%s  %s  %s  %s", r.Run, r.Started, r.Tool, r.Outcome)
		if r.Outcome != journal.Unfinished {
			fmt.Fprintf(&b, "  %v ms", r.Duration)
		}
		fmt.Fprintf(&b, "  %s", number(r.Calls, "call"))
		if r.Error != "" {
			b.WriteString("  " + strings.Join(strings.Fields(r.Error), " "))
		}
		b.WriteByte('\n')
	}
	if l.More {
		b.WriteString("There are older ones (limit).\n")
	}
	return b.String()
}

// ownSession returns the id of the calling session.
func ownSession(call route.Call) (string, error) {
	if call.Origin != nil {
		if id := call.Origin.Session().ID(); id != "" {
			return id, nil
		}
	}
	return "", &compose.Failure{Type: abi.ErrValidation, Message: "runs are only shown to the session that made them, and this request has no session"}
}

func showRunTool(name string, _ []byte) mcp.Tool {
	return define(name, "Show run",
		"Show what a run did, to see why it failed: its calls with arguments and answers, logs, error, fuel and memory. Long values are cut.",
		`{
			"type": "object",
			"properties": {
				"run": {"type": "string", "pattern": "^[0-9A-Fa-f-]{4,36}$", "description": "Its id, or the beginning of it; without: the latest run."},
				"call": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)*$", "description": "Only this call, with more of its values: \"3\", or \"3.1\" for one that a saved tool made."},
				"log": {"type": "integer", "minimum": 1, "description": "Only the log, from this entry on."}
			},
			"additionalProperties": false
		}`,
		`{
			"type": "object",
			"properties": {
				"run": {"type": "string"},
				"tool": {"type": "string"},
				"started": {"type": "string"},
				"outcome": {"type": "string"},
				"duration": {"type": "number", "description": "milliseconds"},
				"params": {"type": "string"},
				"calls": {"type": "array", "items": {
					"type": "object",
					"properties": {
						"call": {"type": "string"},
						"tool": {"type": "string"},
						"start": {"type": "number", "description": "milliseconds since the start of the run"},
						"duration": {"type": "number", "description": "milliseconds"},
						"arguments": {"type": "string"},
						"answer": {"type": "string"},
						"error": {"type": "string"},
						"undo": {"type": "boolean"}
					},
					"required": ["call", "tool", "start", "arguments"]
				}},
				"callsLeftOut": {"type": "integer"},
				"logs": {"type": "array", "items": {"type": "string"}},
				"logsLeftOut": {"type": "integer"},
				"logsToCome": {"type": "integer"},
				"result": {"type": "string"},
				"error": {"type": "string"},
				"fuel": {"type": "integer"},
				"memory": {"type": "integer", "description": "bytes"},
				"notes": {"type": "array", "items": {"type": "string"}},
				"hint": {"type": "string"}
			},
			"required": ["run", "tool", "started", "outcome", "calls", "logs"]
		}`,
		hints{readOnly: true, idempotent: true})
}

func (h *Handler) showRun(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	session, err := ownSession(call)
	if err != nil {
		return wire.Reply{}, err
	}
	var reply wire.Reply
	err = h.ownRun(ctx, session, args, call, func(rec *journal.Record) (err error) {
		if isWithheld(rec) {
			reply = h.labelled(shownReply(withheldRun(rec)), call, compose.WithheldLabels(rec))
			return nil
		}
		if reply, err = showRecord(rec, args); err == nil {
			reply = h.labelled(reply, call, rec.FlowLabels())
		}
		return err
	})
	return reply, err
}

// showRecord returns the answer of show_run.
func showRecord(rec *journal.Record, args []byte) (_ wire.Reply, err error) {
	lines := timeline.Of(rec)
	if number, ok := wire.GetString(args, "call"); ok {
		if lines.Rows, err = oneCall(lines.Rows, number); err != nil {
			return wire.Reply{}, err
		}
		return shownReply(show(rec, lines, oneWhole)), nil
	}
	if from, ok := wire.Get(args, "log"); ok {
		return shownReply(showLog(rec, lines, wholeNumber(from)-1)), nil
	}
	return shownReply(show(rec, lines, many)), nil
}

func shownReply(shown shownRun) wire.Reply {
	return wire.Reply{Result: compose.TextResult(shown.text(), wire.Marshal(shown))}
}

// showLog shows a part of a run's log, from an entry on.
func showLog(rec *journal.Record, lines *timeline.Timeline, from int) shownRun {
	from = min(from, len(lines.Logs))
	part := *lines
	part.Rows, part.Logs = nil, lines.Logs[from:min(from+theLog.logs, len(lines.Logs))]
	shown := show(rec, &part, theLog)
	shown.CallsLeftOut, shown.LogsLeftOut = len(lines.Rows), from
	shown.LogsToCome = len(lines.Logs) - from - len(part.Logs)
	return shown
}

// ownRun calls use for a run of the session.
func (h *Handler) ownRun(ctx context.Context, session string, args []byte, call route.Call, use func(*journal.Record) error) error {
	id, given := wire.GetString(args, "run")
	filter := journal.Filter{ID: strings.ToLower(id), Session: session, Limit: 1}
	var ids []string
	if given {
		filter.Limit = 2 // two, to see whether the first is the only one
		err := h.cfg.Runs.Each(ctx, budgetKey(call), filter, func(r *journal.Record) bool {
			if r.Client.Session == session {
				ids = append(ids, r.ID)
			}
			return len(ids) < 2
		})
		switch {
		case err != nil:
			return unreadable(err)
		case len(ids) == 2:
			several := journal.AmbiguousError{Prefix: id, IDs: ids}
			return &compose.Failure{Type: abi.ErrValidation, Message: several.Error()}
		case len(ids) == 1:
			filter.ID = ids[0]
		}
	}
	err := &compose.Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("this session has no run %s (list_runs lists them)", id)}
	if !given {
		err.Message = "no script has run in this session yet"
	}
	var used error = err
	if given && len(ids) == 0 {
		return used
	}
	if err := h.cfg.Runs.Each(ctx, budgetKey(call), filter, func(r *journal.Record) bool {
		if r.Client.Session == session {
			used = use(r)
		}
		return false
	}); err != nil {
		return unreadable(err)
	}
	return used
}

// oneCall returns only the call with the given number.
func oneCall(rows []timeline.Row, number string) ([]timeline.Row, error) {
	for _, r := range rows {
		if r.Number == number {
			return []timeline.Row{r}, nil
		}
	}
	message := fmt.Sprintf("the run has no call %s; it made none", number)
	if n := len(rows); n > 0 {
		message = fmt.Sprintf("the run has no call %s; the last one is %s", number, rows[n-1].Number)
	}
	return nil, &compose.Failure{Type: abi.ErrValidation, Message: message}
}

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
