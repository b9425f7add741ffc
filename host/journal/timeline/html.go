package timeline

import (
	_ "embed"
	"encoding/json"
	"fmt"
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

// Markup builds HTML. html/template would serve, too, but calls methods by name: the linker would
// have to keep every method of the program, a seventh of the size.
type Markup struct{ b strings.Builder }

// Safe is text that is written unchanged.
type Safe string

// Add adds a text with a verb of package fmt for each value. Values are escaped for elements, and
// for attributes in double quotes, unless they are Safe or numbers.
func (m *Markup) Add(format string, values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case Safe, int, float64:
		default:
			values[i] = escaper.Replace(fmt.Sprint(v))
		}
	}
	fmt.Fprintf(&m.b, format, values...)
}

// AddIf adds a text, as Add does, unless the value is "".
func (m *Markup) AddIf(format, value string) {
	if value != "" {
		m.Add(format, value)
	}
}

// String returns the added text.
func (m *Markup) String() string { return m.b.String() }

var escaper = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;")

//go:embed page.css
var pageStyle string

// Style returns the style sheet of the page.
func Style() Safe { return Safe(pageStyle) }

// page returns the page.
func (v *View) page() string {
	var m Markup
	m.Add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s: %s (%s)</title>
<style>%s</style>
</head>
<body>
<header>
<h1>%s <span class="badge %s">%s</span></h1>
<dl>`, v.Tool, v.Outcome, v.ID, Style(), v.Tool, v.Class, v.Outcome)
	for _, f := range v.Facts {
		if f.Name != "tool" && f.Value != "" {
			m.Add("\n<dt>%s</dt><dd>%s</dd>", f.Name, f.Value)
		}
	}
	m.Add("\n</dl>\n</header>\n<main>\n")
	if f := v.Failure; f != nil {
		m.Add(`
<section aria-labelledby="error">
<h2 id="error">Error</h2>
<div class="failure"><p><strong>%s error:</strong> %s</p>`, f.Type, f.Message)
		m.AddIf("\n<pre>%s</pre>", v.Place)
		m.AddIf("\n<pre>%s</pre>", v.Violations)
		m.AddIf("\n<details><summary>Backtrace</summary><pre>%s</pre></details>", f.Stack)
		m.Add("\n</div>\n</section>\n")
	}
	m.Add("\n<section aria-labelledby=\"calls\">\n<h2 id=\"calls\">Calls</h2>\n\n")
	if len(v.Rows) > 0 {
		m.Add("%s\n", v.Waterfall())
	} else {
		m.Add("<p>The script made no calls.</p>\n")
	}
	m.Add("\n</section>\n")
	if len(v.Logs) > 0 {
		m.Add(`
<section aria-labelledby="log">
<h2 id="log">Log</h2>
<table>
<thead><tr><th scope="col" class="time">at</th><th scope="col">level</th><th scope="col">text</th></tr></thead>
<tbody>`)
		for _, l := range v.Logs {
			m.Add("\n"+`<tr class="%s"><td class="time">%s</td><td>%s</td><td><pre>`, l.Level, l.At, l.Level)
			m.AddIf("%s: ", l.From)
			m.Add("%s</pre></td></tr>", l.Text)
		}
		m.Add("\n</tbody>\n</table>\n</section>\n")
	}
	m.Add("\n<section aria-labelledby=\"values\">\n<h2 id=\"values\">Values</h2>\n")
	for _, value := range v.Values {
		open := Safe("")
		if value.Open {
			open = " open"
		}
		m.Add("\n<details%s><summary>%s</summary>\n<pre>%s</pre>", open, value.Name, value.Text)
		v.left(&m, value)
		m.Add("\n</details>\n")
	}
	m.Add("\n</section>\n</main>\n</body>\n</html>\n\n")
	return m.String()
}

// Waterfall returns the rows of the page as HTML, for pages with the rules of [Style].
func (v *View) Waterfall() Safe {
	var m Markup
	m.Add(`<div class="waterfall">
<div class="line head" aria-hidden="true"><span>#</span><span>call</span><span class="time">start</span><span class="time">took</span><span class="track axis">`)
	for _, t := range v.Ticks {
		m.Add(`<span class="tick" style="left:%.3f%%">%s</span>`, 100*t.At, t.Text)
	}
	m.Add("</span></div>\n")
	for _, r := range v.Rows {
		m.Add(`
<details class="call %s">
<summary class="line"><span class="number">%s</span><span class="label" style="padding-left:%drem">%s`, r.Class, r.Number, r.Depth, r.Label)
		m.AddIf(" <small>%s</small>", r.Marks)
		m.Add(`</span><span class="time">%s</span><span class="time">%s</span><span class="track" role="img" aria-label="from %s for %s"><span class="bar" style="left:%.3f%%;width:%.3f%%"></span></span>`,
			r.Start, r.Took, r.Start, r.Took, 100*r.From, 100*r.Width)
		m.AddIf(`<span class="why">%s</span>`, r.Error)
		m.Add("</summary>\n<div class=\"values\">")
		for _, value := range r.Values {
			if value.Text != "" {
				m.Add("\n<h3>%s</h3>\n<pre>%s</pre>", value.Name, value.Text)
				v.left(&m, value)
			}
		}
		m.Add("\n</div>\n</details>\n")
	}
	m.Add("\n")
	if v.More > 0 {
		m.Add("<p class=\"left\">%d more calls are not shown.</p>\n", v.More)
	}
	m.Add("</div>")
	return Safe(m.String())
}

// left says how much of a value was left out.
func (v *View) left(m *Markup, value ValueView) {
	if value.Left != "" {
		m.Add("\n<p class=\"left\">%s%s</p>", value.Left, v.Where)
	}
}
