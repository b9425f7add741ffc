package timeline

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	_ "embed"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// The sizes of a page in bytes. A page shows at most maxValueBytes of a value. When the
// values have used up pageBytes, it shows at most minValueBytes of each.
const (
	maxValueBytes = 256 << 10
	minValueBytes = 1 << 10
	pageBytes     = 16 << 20
)

// WriteHTML writes a run as a self-contained page: it has no scripts and loads nothing.
func WriteHTML(w io.Writer, rec *journal.Record) error {
	t := Of(rec)
	p := page{left: pageBytes}
	return pageTemplate.Execute(w, p.view(rec, t))
}

// page builds the view of a run.
type page struct{ left int } // bytes that are left of pageBytes

// view is the data for the template.
type view struct {
	Style   template.CSS
	Tool    string
	ID      string
	Outcome string // name
	Class   string // of the outcome: ok, error or unanswered
	Facts   []Fact
	Ticks   []tick
	Rows    []rowView
	Logs    []logView
	Failure *failure
	Place   string
	// Violations are the violations of the failure, one per line.
	Violations string
	Values     []valueView // params, result, script
}

type tick struct {
	Left template.CSS
	Text string
}

type rowView struct {
	Number, Label string
	Indent        template.CSS
	Class, Marks  string
	Start, Took   string
	Bar           template.CSS
	Error         string
	Values        []valueView
}

type valueView struct {
	Name, Text, Left string
	Open             bool
}

type logView struct{ At, Level, From, Text string }

func (p *page) view(rec *journal.Record, t *Timeline) view {
	v := view{
		Style: template.CSS(pageStyle), Tool: display.Line(rec.Definition.Name, 200), ID: display.Text(rec.ID),
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
	v.Ticks = append(v.Ticks, tick{percent("left", 0), "0"})
	for i := 1; i <= ticks; i++ {
		v.Ticks = append(v.Ticks, tick{percent("left", float64(i)/ticks), Duration(t.Length * time.Duration(i) / ticks)})
	}
	for _, r := range t.Rows {
		v.Rows = append(v.Rows, p.row(t, r))
	}
	for _, e := range t.Logs {
		text, left := cut(e.Text, p.room())
		if left != "" {
			text += " ... (" + left + ")"
		}
		p.left -= len(text)
		v.Logs = append(v.Logs, logView{Duration(e.At), levelName(e.Level), display.Line(e.From, 80), text})
	}
	v.add(p.value("params", rec.Params))
	if rec.Done && v.Failure == nil && !rec.Outcome.Asks {
		result := p.value("result", rec.Outcome.Result)
		result.Open = true
		v.add(result)
	}
	code, left := cut(rec.Definition.Code, p.room())
	v.add(valueView{Name: "script", Text: code, Left: left})
	return v
}

func (v *view) add(value valueView) {
	if value.Text != "" {
		v.Values = append(v.Values, value)
	}
}

func (p *page) row(t *Timeline, r Row) rowView {
	from, to := t.span(r)
	row := rowView{
		Number: r.Number, Label: display.Line(r.Label, 200), Class: string(r.State), Marks: strings.TrimSpace(mark(r)),
		Indent: template.CSS(fmt.Sprintf("padding-left:%drem", r.Depth)), Start: Duration(r.Start), Took: Duration(r.Took),
		Bar: percent("left", from) + ";" + percent("width", to-from),
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

// value returns raw JSON for the page, cut to the bytes that are left.
func (p *page) value(name string, raw []byte) valueView {
	text, left := pretty(raw, p.room())
	p.left -= len(text)
	return valueView{Name: name, Text: text, Left: left}
}

func (p *page) room() int { return max(minValueBytes, min(maxValueBytes, p.left)) }

func percent(property string, part float64) template.CSS {
	return template.CSS(fmt.Sprintf("%s:%.3f%%", property, 100*part))
}

func outcomeClass(rec *journal.Record) string {
	switch {
	case !rec.Done, rec.Outcome.Asks:
		return string(Unanswered)
	case rec.Outcome.Error != "":
		return string(Failed)
	}
	return string(Answered)
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
	if err != nil { // its details are not JSON
		raw, _ = json.Marshal(abi.CallError{Type: e.Type, Server: e.Server, Tool: e.Tool, Message: e.Message})
	}
	return raw
}
