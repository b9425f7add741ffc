package timeline

import (
	_ "embed"
	"fmt"
	"strings"
)

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
