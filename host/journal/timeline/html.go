package timeline

import (
	"encoding/json"
	"io"
	"math"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// The sizes of a page in bytes. A page shows at most maxValueBytes of a value. When the values have
// used up pageBytes, the page shows at most minValueBytes of each.
const (
	maxValueBytes = 256 << 10
	minValueBytes = 1 << 10
	pageBytes     = 16 << 20
)

// WriteHTML writes a run as a self-contained page, without scripts and loads.
func WriteHTML(w io.Writer, rec *journal.Record) error {
	_, err := io.WriteString(w, NewView(rec).page())
	return err
}

// View is the content of a page about a run: texts safe to show, and values indented and shortened.
// mcp-metatool ui makes a page from the JSON of a View.
type View struct {
	Tool    string    `json:"tool"`
	ID      string    `json:"id"`
	Outcome string    `json:"outcome"` // name
	Class   State     `json:"class"`   // of the outcome
	Facts   []Fact    `json:"facts"`
	Ticks   []Tick    `json:"ticks"`
	Rows    []RowView `json:"rows"`
	Logs    []LogView `json:"logs"`
	// Failure is the error, Place the place in the script, and Violations are the violations of a
	// schema, one per line.
	Failure    *failure    `json:"failure"`
	Place      string      `json:"place"`
	Violations string      `json:"violations"`
	Values     []ValueView `json:"values"` // params, result, script
	// More is how many rows are left out, and Where says where the rest of shortened
	// values is.
	More  int    `json:"-"`
	Where string `json:"-"`
}

// Tick is a mark on the axis of time. At is from 0 to 1.
type Tick struct {
	At   float64 `json:"at"`
	Text string  `json:"text"`
}

// RowView is a row of the waterfall. From and Width are parts of the axis of time.
type RowView struct {
	Number string      `json:"number"`
	Label  string      `json:"label"`
	Depth  int         `json:"depth"`
	Class  State       `json:"class"`
	Marks  string      `json:"marks"`
	Start  string      `json:"start"`
	Took   string      `json:"took"`
	From   float64     `json:"from"`
	Width  float64     `json:"width"`
	Error  string      `json:"error"`
	Values []ValueView `json:"values"`
}

// ValueView is a value. Left describes the omitted part, "" for none.
type ValueView struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Left string `json:"left"`
	Open bool   `json:"open"`
}

// LogView is a log entry.
type LogView struct {
	At    string `json:"at"`
	Level string `json:"level"`
	From  string `json:"from"`
	Text  string `json:"text"`
}

// NewView returns the content of a page about a run.
func NewView(rec *journal.Record) *View {
	v := NewShortView(rec, pageBytes, math.MaxInt)
	v.Where = ": mcp-metatool runs show --calls shows all of it"
	return v
}

// NewShortView is NewView for pages with many runs outside of journals, with at most rows rows, and
// with about bytes bytes of values.
func NewShortView(rec *journal.Record, bytes, rows int) *View {
	p, t := page{left: bytes}, Of(rec)
	v := &View{
		Tool: display.Line(rec.Definition.Name, 200), ID: display.Text(rec.ID),
		Outcome: display.Text(rec.OutcomeName()), Class: outcomeClass(rec), Failure: failureOf(rec),
	}
	if v.Failure != nil {
		v.Outcome += " error"
	}
	for _, f := range facts(rec, t) {
		v.Facts = append(v.Facts, Fact{f.Name, display.Line(f.Value, 400)})
	}
	if v.Failure != nil {
		v.Place, v.Violations = v.Failure.location(), strings.Join(v.Failure.violations(), "\n")
	}
	const ticks = 4
	v.Ticks = append(v.Ticks, Tick{0, "0"})
	for i := 1; i <= ticks; i++ {
		v.Ticks = append(v.Ticks, Tick{float64(i) / ticks, Duration(t.Length * time.Duration(i) / ticks)})
	}
	v.More = max(0, len(t.Rows)-rows)
	for _, r := range t.Rows[:len(t.Rows)-v.More] {
		v.Rows = append(v.Rows, p.row(t, r))
	}
	for _, e := range t.Logs {
		text, left := cut(e.Text, p.room())
		if left != "" {
			text += " ... (" + left + ")"
		}
		p.left -= len(text)
		v.Logs = append(v.Logs, LogView{Duration(e.At), levelName(e.Level), display.Line(e.From, 80), text})
	}
	v.add(p.value("params", rec.Params))
	if rec.Done && v.Failure == nil && !rec.Outcome.Asks {
		result := p.value("result", rec.Outcome.Result)
		result.Open = true
		v.add(result)
	}
	code, left := cut(rec.Definition.Code, p.room())
	v.add(ValueView{Name: "script", Text: code, Left: left})
	return v
}

// page counts the bytes of pageBytes left for a View.
type page struct{ left int }

func (v *View) add(value ValueView) {
	if value.Text != "" {
		v.Values = append(v.Values, value)
	}
}

func (p *page) row(t *Timeline, r Row) RowView {
	from, to := t.span(r)
	row := RowView{
		Number: r.Number, Label: display.Line(r.Label, 200), Depth: r.Depth, Class: r.State, Marks: strings.TrimSpace(mark(r)),
		Start: Duration(r.Start), Took: Duration(r.Took), From: from, Width: to - from,
	}
	if r.State == Unanswered {
		row.Took = "-"
	}
	if e := r.Call.Answer.Err; e != nil {
		row.Error, _ = cut(string(e.Type)+" error: "+e.Message, excerptBytes)
	}
	row.Values = append(row.Values, p.value("arguments", r.Call.Request.Arguments))
	for _, a := range answers(r.Call) {
		row.Values = append(row.Values, p.value(a.Name, a.raw))
	}
	return row
}

// value returns raw JSON for the page, cut to the remaining bytes.
func (p *page) value(name string, raw []byte) ValueView {
	text, left := pretty(raw, p.room())
	p.left -= len(text)
	return ValueView{Name: name, Text: text, Left: left}
}

func (p *page) room() int { return max(minValueBytes, min(maxValueBytes, p.left)) }

func outcomeClass(rec *journal.Record) State {
	switch {
	case !rec.Done, rec.Outcome.Asks:
		return Unanswered
	case rec.Outcome.Error != "":
		return Failed
	}
	return Answered
}

func levelName(l abi.LogLevel) string {
	switch l {
	case abi.LogWarn:
		return "warning"
	case abi.LogError:
		return "error"
	}
	return "info"
}

func errorJSON(e *abi.CallError) []byte {
	raw, err := json.Marshal(e)
	if err != nil { // the details are not JSON
		raw, _ = json.Marshal(abi.CallError{Type: e.Type, Server: e.Server, Tool: e.Tool, Message: e.Message})
	}
	return raw
}
