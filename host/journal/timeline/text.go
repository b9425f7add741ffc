package timeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// TextOptions are the options of WriteText.
type TextOptions struct {
	Width int  // of the terminal, in columns; 0: 80
	Whole bool // show arguments, answers and the result in full
	Color bool // use colours
	// Rounds are the runs of the same dialogue with the client, oldest first, if more than one.
	Rounds []Tree
}

// paint applies a style to displayable text.
func (o TextOptions) paint(s display.Style, text string) string {
	if !o.Color {
		return text
	}
	return s.Apply(text)
}

// excerptBytes is how many bytes of a value are shown unless Whole is set.
const excerptBytes = 2 << 10

// WriteText writes a run as text for a terminal.
func WriteText(w io.Writer, rec *journal.Record, opts TextOptions) error {
	t := textWriter{Writer: bufio.NewWriter(w), opts: opts, Timeline: Of(rec), wraps: opts.Width > 0}
	if !t.wraps {
		t.opts.Width = 80
	}
	t.head(rec)
	t.tree(rec)
	t.waterfall()
	t.logs()
	if opts.Whole {
		t.values()
	}
	t.outcome(rec)
	return t.Flush()
}

// tree writes the tree of a run, if more than one run is shown.
func (t *textWriter) tree(rec *journal.Record) {
	rounds := t.opts.Rounds
	if len(rounds) < 2 {
		rounds = []Tree{TreeOf(rec)}
		if rounds[0].Runs == nil {
			return
		}
	}
	t.printf("\n")
	_ = WriteTrees(t.Writer, rounds, t.opts) // Flush returns the error
}

type textWriter struct {
	*bufio.Writer
	*Timeline
	opts  TextOptions
	wraps bool // lines are broken at the width
}

// wrap breaks a line, if requested, and indents the following lines by n columns.
func (t *textWriter) wrap(line string, n int) string {
	if !t.wraps || display.Width(line)+n <= t.opts.Width {
		return line
	}
	return strings.Join(display.Wrap(line, max(t.opts.Width-n, minBar)), "\n"+strings.Repeat(" ", n))
}

func (t *textWriter) printf(format string, a ...any) { fmt.Fprintf(t.Writer, format, a...) }

// fact writes a line of the head.
func (t *textWriter) fact(name, value string) {
	if value != "" {
		t.printf("%s %s\n", t.opts.paint(display.Bold, fmt.Sprintf("%-8s", name)), t.wrap(display.Line(value, 400), 9))
	}
}

func (t *textWriter) head(rec *journal.Record) {
	for _, f := range facts(rec, t.Timeline) {
		t.fact(f.Name, f.Value)
	}
}

// Fact is a name with a value.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// facts returns the facts in the head of a run.
func facts(rec *journal.Record, t *Timeline) []Fact {
	d := rec.Definition
	all := []Fact{{"run", rec.ID}, {"tool", d.Name}}
	if rec.Saved {
		all = append(all, Fact{"version", short(d.Hash(), 12)})
	}
	took := "ended after " + Duration(rec.Duration)
	if !rec.Done {
		took = "unfinished: still running, or the process ended before the run"
	}
	all = append(all, Fact{"started", display.Time(rec.Start, time.Millisecond) + ", " + took})
	if rec.Continues != "" {
		all = append(all, Fact{"after", "run " + rec.Continues + ", which this one continues (" + Duration(rec.Elapsed) + " before)"})
	}
	if s := rec.Seal; s != nil {
		all = append(all, Fact{"signed", "by the key " + s.Key + " (mcp-metatool verify " + short(rec.ID, 13) + " checks it)"})
	}
	if p := rec.Plan; p != nil && p.Applies != "" {
		all = append(all, Fact{"plan", "carries out " + p.Applies + " (digest " + short(p.Digest, 12) + "); " + p.Makes + " is the next one, if it is left open"})
	} else if p != nil {
		all = append(all, Fact{"plan", "makes " + p.Makes})
	}
	all = append(all, questions(rec, "")...)
	if c := rec.Client; c.Session != "" || c.Name != "" {
		with := " (session " + c.Session
		if c.Token != "" {
			with += ", token " + c.Token
		}
		all = append(all, Fact{"client", strings.Join(strings.Fields(c.Name+" "+c.Version), " ") + with + ")"})
	}
	used := fmt.Sprintf("%d calls", len(t.Rows))
	if len(t.Rows) == 1 {
		used = "1 call"
	}
	if rec.Done {
		used += fmt.Sprintf(", %s units of fuel, %s of memory", Thousands(rec.Outcome.Fuel), display.Size(rec.Outcome.Memory))
	}
	l := rec.Limits
	all = append(all, Fact{"used", used}, Fact{"limits", fmt.Sprintf("%s, %d calls, %s units of fuel, %s of memory",
		units.FormatDuration(l.Timeout), l.Calls, Thousands(l.Fuel), display.Size(l.Memory))})
	all = append(all, decisions(t)...)
	for _, line := range Violations(rec) {
		all = append(all, Fact{"refused", line})
	}
	for _, gap := range Gaps(rec) {
		all = append(all, Fact{"note", gap})
	}
	return all
}

// waits is the outcome of a run that asks.
const waits = "asks: the run ended, and another run continues when the client has answered"

// questions returns the questions of servers to the client during a run and the nested runs, with
// the answers. prefix is the prefix of the numbers of the run's calls.
func questions(rec *journal.Record, prefix string) []Fact {
	var all []Fact
	for i := range rec.Inputs {
		in := &rec.Inputs[i]
		if in.Own && in.Answer != nil {
			continue // the decision about the call says the same
		}
		answer := "no answer"
		if in.Answer != nil {
			answer = "answered " + string(in.Answer)
		} else if rec.Outcome.Asks {
			answer = "waits for an answer"
		}
		all = append(all, Fact{"asked", fmt.Sprintf("in call %s%d: %s: %s", prefix, in.Call, Question(in), answer)})
	}
	for i := range rec.Calls {
		if c := &rec.Calls[i]; c.Answer.Run != nil {
			all = append(all, questions(c.Answer.Run, fmt.Sprintf("%s%d.", prefix, c.Seq))...)
		}
	}
	return all
}

// Question returns a server's question to the client on one line.
func Question(in *journal.InputRecord) string {
	if in.Own {
		return "approval of the call"
	}
	text, ok := wire.GetString(in.Params, "message")
	if !ok {
		return in.Method
	}
	return in.Method + " " + strconv.Quote(display.Line(text, 120))
}

// Gaps returns a line for each kind of gap in a record.
func Gaps(rec *journal.Record) []string {
	var gaps []string
	if rec.Any(func(r *journal.Record) bool { return r.Incomplete }) {
		gaps = append(gaps, "the journal could not be written to for a while: the run did more than is shown")
	}
	if rec.Any(func(r *journal.Record) bool { return r.Redacted }) {
		gaps = append(gaps, "secrets were replaced by ****")
	}
	return gaps
}

// The minimum and maximum widths of the parts of the waterfall, in columns.
const (
	minBar, maxBar     = 16, 100
	minLabel, maxLabel = 12, 48
)

// waterfall writes a line for each call with a bar for the time of the call.
func (t *textWriter) waterfall() {
	if len(t.Rows) == 0 {
		t.printf("\nno calls\n")
		return
	}
	number, label, marks := 0, minLabel, 0
	for _, r := range t.Rows {
		marks = max(marks, len(mark(r)))
		number = max(number, len(r.Number))
		label = max(label, min(maxLabel, 2*r.Depth+utf8.RuneCountInString(r.Label)))
	}
	const times = 2 + 8 + 2 + 8 + 2
	bar := t.opts.Width - number - 2 - label - times - 2
	if t.wraps {
		bar -= marks
	}
	if bar < minBar {
		label = max(minLabel, label-(minBar-bar))
		bar = minBar
	}
	bar = min(bar, maxBar)
	end := Duration(t.Length)
	t.printf("\n%*s  %-*s  %8s  %8s  |0%*s|\n", number, "#", label, "call", "start", "took", bar-1, end)
	for _, r := range t.Rows {
		took := Duration(r.Took)
		if r.State == Unanswered {
			took = "-"
		}
		style := display.Good
		switch r.State {
		case Failed:
			style = display.Bad
		case Unanswered:
			style = display.Caution
		}
		t.printf("%*s  %-*s  %8s  %8s  |%s|%s\n", number, r.Number, label, indented(r, label),
			Duration(r.Start), took, t.opts.paint(style, t.bar(r, bar)), t.opts.paint(style, mark(r)))
		if e := r.Call.Answer.Err; r.State == Failed && e != nil {
			indent := number + 2 + 2*r.Depth
			t.printf("%*s%s\n", indent, "", t.opts.paint(display.Bad, t.wrap(display.Line(string(e.Type)+" error: "+e.Message, 300), indent)))
		}
	}
}

// indented returns the label of a row in n columns.
func indented(r Row, n int) string {
	return strings.Repeat("  ", r.Depth) + display.Line(r.Label, max(1, n-2*r.Depth))
}

// mark returns the text after the bar of a row.
func mark(r Row) string {
	var marks []string
	switch r.State {
	case Failed:
		marks = append(marks, "failed")
	case Unanswered:
		marks = append(marks, "no answer")
	}
	if r.Undo {
		marks = append(marks, "undo")
	}
	if n := r.Call.Progress; n > 0 {
		marks = append(marks, fmt.Sprintf("%d progress", n))
	}
	if marks == nil {
		return ""
	}
	return " " + strings.Join(marks, ", ")
}

// bar returns the bar of a row in n columns.
func (t *textWriter) bar(r Row, n int) string {
	from, to := t.span(r)
	first := min(int(from*float64(n)), n-1)
	cells := max(1, int(to*float64(n)+0.5)-first)
	cells = min(cells, n-first)
	fill := "█"
	switch {
	case r.State == Failed:
		fill = "▒"
	case r.State == Unanswered:
		fill = "░"
	}
	return strings.Repeat(" ", first) + strings.Repeat(fill, cells) + strings.Repeat(" ", n-first-cells)
}

func (t *textWriter) logs() {
	if len(t.Logs) == 0 {
		return
	}
	t.printf("\nlog\n")
	for _, e := range t.Logs {
		level, from := "", ""
		if e.Level != abi.LogInfo {
			level = levelName(e.Level) + ": "
		}
		if e.From != "" {
			from = display.Text(e.From) + ": "
		}
		text, left := cut(e.Text, t.most())
		if left != "" {
			text += " ... (" + left + ")"
		}
		t.printf("  %8s  %s\n", Duration(e.At), strings.ReplaceAll(from+level+text, "\n", "\n            "))
	}
}

// most returns how many bytes of a value are shown; 0: all.
func (t *textWriter) most() int {
	if t.opts.Whole {
		return 0
	}
	return excerptBytes
}

// values writes the arguments and the answers of all calls.
func (t *textWriter) values() {
	for _, r := range t.Rows {
		t.printf("\n%s  %s\n", r.Number, display.Line(r.Label, 200))
		t.value("arguments", r.Call.Request.Arguments)
		for _, v := range answers(r.Call) {
			t.value(v.Name, v.raw)
		}
	}
}

// value is a named part of a call, as raw JSON.
type value struct {
	Name string
	raw  []byte
}

// answers returns the parts of the answer to a call.
func answers(c *journal.CallRecord) []value {
	a := c.Answer
	var all []value
	add := func(name string, raw []byte) {
		if raw != nil {
			all = append(all, value{name, raw})
		}
	}
	switch {
	case a.RPCError != nil:
		add("JSON-RPC error", a.RPCError)
	case a.Result != nil:
		add("result", a.Result)
	case a.Run != nil && a.Err == nil:
		add("value", a.Value)
	}
	if a.Err != nil {
		add("error in the script", errorJSON(a.Err))
	}
	return all
}

func (t *textWriter) value(name string, raw []byte) {
	text, left := pretty(raw, t.most())
	if text == "" {
		return
	}
	t.printf("  %s: %s\n", name, strings.ReplaceAll(text, "\n", "\n  "))
	if left != "" {
		t.printf("  ... (%s; --calls shows all of it)\n", left)
	}
}

func (t *textWriter) outcome(rec *journal.Record) {
	t.printf("\n")
	if f := failureOf(rec); f != nil {
		message := f.Message
		if !strings.Contains(message, "\n") {
			message = strings.TrimSpace(t.wrap(f.Type+" error: "+message, 0)[len(f.Type+" error:"):])
		}
		t.printf("%s %s\n", t.opts.paint(display.Bad, f.Type+" error:"), message)
		if location := f.location(); location != "" {
			t.printf("%s\n", location)
		}
		for _, line := range f.violations() {
			t.printf("  %s\n", line)
		}
		if f.Stack != "" {
			t.printf("%s\n", strings.TrimSpace(f.Stack))
		}
		return
	}
	switch {
	case !rec.Done:
		t.printf("no result\n")
		return
	case rec.Outcome.Asks:
		t.printf("%s\n", waits)
		return
	}
	text, left := pretty(rec.Outcome.Result, t.most())
	t.printf("result: %s\n", text)
	if left != "" {
		t.printf("... (%s; --calls shows all of it)\n", left)
	}
}

// Duration formats a time in a run with about three digits, to fit in a column.
func Duration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d < 0:
		return "0 ms"
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
	case ms < 100:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	case ms < 10_000:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	case d < 10*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return strconv.FormatFloat(d.Minutes(), 'f', 0, 64) + " min"
}

// Thousands formats a number for people, with digits in groups of three.
func Thousands(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func short(text string, n int) string { return text[:min(n, len(text))] }

// pretty indents raw JSON with unchanged numbers, and cuts the text to about most bytes; 0 means no
// limit. left describes the removed part, "" for none.
func pretty(raw []byte, most int) (text, left string) {
	if raw == nil {
		return "", ""
	}
	if most > 0 && len(raw) > 8*most { // indenting the whole text for the beginning alone takes long
		return cut(string(raw), most)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return cut(string(raw), most)
	}
	return cut(b.String(), most)
}

// cut returns the beginning of text, made safe to display, and how much was cut off.
func cut(text string, most int) (head, left string) {
	if most > 0 && len(text) > most {
		all := len(text)
		text = display.Head(text, most)
		left = fmt.Sprintf("%s more", display.Size(uint64(all-len(text))))
	}
	return display.Text(text), left
}
