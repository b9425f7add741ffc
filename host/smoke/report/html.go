package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

var (
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

// pagePolicy returns the Content-Security-Policy of the page: the page loads nothing, and only its
// own script runs.
func pagePolicy() string {
	sum := sha256.Sum256([]byte(pageScript))
	return "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// htmlWriter writes a page that loads nothing. The page can be filtered by outcome without its
// script; with the script, also by text. All output is written at Close, since the summary comes
// first.
type htmlWriter struct {
	out   *sink
	now   func() time.Time
	files []File
}

func (h *htmlWriter) Result(Result) error { return h.out.err }

func (h *htmlWriter) File(f File) error {
	h.files = append(h.files, f)
	return h.out.err
}

// htmlPage is the content of the page.
type htmlPage struct {
	Summary Summary
	Line    string // of the summary
	Good    bool
	At      string
	Counts  []htmlCount
	Files   []htmlFile
}

// htmlCount is a button that chooses the checks to show.
type htmlCount struct {
	Class, Label string
	N            int
}

type htmlFile struct {
	File
	Error string
	Took  string
	// Class is the class of the worst result.
	Class   string
	Results []htmlResult
}

type htmlResult struct {
	Result
	Class  string // failed, broken, passed or skipped
	Word   string
	Reason string // why the check was skipped
	Found  string // the text for the search
	Facts  []string
	Logs   []string
	Left   int // log entries that are not shown
	Output string
	Falls  timeline.Safe // the waterfall of the calls
}

// word names the status in the page; unknown ones count as failed.
func word(s Status) (class, label string) {
	switch s {
	case Passed, Skipped, Broken:
		return string(s), string(s)
	}
	return string(Failed), string(Failed)
}

func (h *htmlWriter) Close(s Summary) error {
	p := htmlPage{
		Summary: s, Line: s.String(), Good: s.ExitCode() == 0, At: display.Time(h.now(), time.Second),
		Counts: []htmlCount{{"failed", "failed", s.Failed}, {"broken", "broken", s.Broken}, {"passed", "passed", s.Passed}, {"skipped", "skipped", s.Skipped}},
	}
	for _, f := range h.files {
		p.Files = append(p.Files, htmlFileOf(f))
	}
	if _, err := io.WriteString(h.out, p.markup()); err != nil {
		return err
	}
	return h.out.flush()
}

func htmlFileOf(f File) htmlFile {
	file := htmlFile{File: f, Took: clock(f.Duration), Class: "passed"}
	if f.Err != nil {
		file.Error, file.Class = display.Escape(f.Err.Error()), "wrong"
	}
	for _, r := range f.Results {
		file.Results = append(file.Results, htmlResultOf(r))
	}
	return file
}

func htmlResultOf(r Result) htmlResult {
	h := htmlResult{Result: r, Output: display.Escape(r.extraOutput())}
	h.Class, h.Word = word(r.Status)
	if r.Status == Skipped {
		h.Reason, h.Problems = reason(r), nil
	}
	h.Found = strings.ToLower(display.EscapeLine(strings.Join(append([]string{r.Name, r.File, h.Word, r.Phase, r.Row.String()}, r.Tags...), " ")))
	h.Facts = facts(r)
	h.Logs = r.Logs
	if h.Left = len(r.Logs) - maxLogs; h.Left > 0 {
		h.Logs = r.Logs[h.Left:]
	}
	if r.Run != nil && len(r.Run.Rows) > 0 {
		h.Falls = r.Run.Waterfall()
	}
	return h
}

// facts describes how a check was run.
func facts(r Result) []string {
	all := []string{place(r.File, r.Line, r.Column)}
	if row := r.Row.String(); row != "" {
		all = append(all, row)
	}
	if r.Attempts > 1 {
		all = append(all, fmt.Sprintf("%d attempts", r.Attempts))
	}
	if u := r.Usage; u != nil {
		all = append(all, count(int(u.Calls), "call"), timeline.Thousands(u.Fuel)+" units of fuel", display.Size(u.Memory)+" of memory")
	}
	return all
}

// htmlLine is a line of a diff.
type htmlLine struct{ Class, Text string }

func diffLines(s string) []htmlLine {
	if s == "" {
		return nil
	}
	var lines []htmlLine
	for line := range strings.SplitSeq(strings.TrimSuffix(display.Escape(s), "\n"), "\n") {
		class := ""
		switch {
		case strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ "): // at worst, a line in another colour
			class = "hunk"
		case strings.HasPrefix(line, "-"):
			class = "del"
		case strings.HasPrefix(line, "+"):
			class = "add"
		case strings.HasPrefix(line, "@@"):
			class = "hunk"
		}
		lines = append(lines, htmlLine{class, line})
	}
	return lines
}

// markup returns the page.
func (p *htmlPage) markup() string {
	var m timeline.Markup
	class, word := "error", "failed"
	if p.Good {
		class, word = "ok", "passed"
	}
	m.Add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Smoke checks: %s</title>
<style>%s%s</style>
</head>
<body>
<header>
<h1>Smoke checks <span class="badge %s">%s</span></h1>
<p class="soft">%s, %s</p>
<fieldset class="filter">
<legend>Show</legend>
<input type="radio" name="show" id="show-all" checked><label for="show-all">all <b>%d</b></label>
`, pagePolicy(), p.Line, timeline.Style(), timeline.Safe(pageStyle), class, word, p.Line, p.At, p.Summary.Checks())
	for _, c := range p.Counts {
		disabled := timeline.Safe("")
		if c.N == 0 {
			disabled = " disabled"
		}
		m.Add(`<input type="radio" name="show" id="show-%s"%s><label for="show-%s" class="%s">%s <b>%d</b></label>`+"\n",
			c.Class, disabled, c.Class, c.Class, c.Label, c.N)
	}
	m.Add(`<input type="search" id="search" placeholder="name, file or tag" aria-label="Show only checks with this text" hidden>
</fieldset>
</header>
<main>
<p id="none" class="soft" role="status" hidden>No check has this text.</p>
`)
	for i := range p.Files {
		p.Files[i].markup(&m, i)
	}
	if len(p.Files) == 0 {
		m.Add("<p class=\"soft\">There are no files.</p>\n")
	}
	m.Add("\n")
	if c := p.Summary.Coverage; c != nil {
		c.markup(&m)
	}
	m.Add("\n</main>\n<script>%s</script>\n</body>\n</html>\n", timeline.Safe(pageScript))
	return m.String()
}

// markup adds a file, which has a number in the page.
func (f *htmlFile) markup(m *timeline.Markup, number int) {
	m.Add(`
<section class="file %s" aria-labelledby="file-%d">
<h2 id="file-%d">%s <small>%s</small></h2>
`, f.Class, number, number, display.EscapeLine(f.Path), f.Took)
	m.AddIf(`<div class="problem"><p><strong>The file could not be run.</strong></p><pre>%s</pre></div>`+"\n", f.Error)
	if f.Error == "" && len(f.Results) == 0 {
		m.Add(`<p class="soft">The file has no checks to run.</p>`)
	}
	m.Add("\n")
	for k := range f.Results {
		f.Results[k].markup(m, fmt.Sprintf("check-%d-%d", number, k))
	}
	m.Add("\n")
	if len(f.Servers) > 0 || f.Digest != "" || len(f.Stale) > 0 {
		m.Add("<details class=\"about\"><summary>Servers and file</summary>\n<dl>")
		for _, s := range f.Servers {
			about := display.EscapeLine(s.Err)
			if about == "" {
				about = display.EscapeLine(s.Product) + " " + display.EscapeLine(s.Version)
				if s.Protocol != "" {
					about += ", protocol " + display.EscapeLine(s.Protocol)
				}
				about += fmt.Sprintf(", %d tools", len(s.Tools))
			}
			m.Add("<dt>%s</dt><dd>%s</dd>", display.EscapeLine(s.Name), about)
		}
		m.Add("\n")
		m.AddIf("<dt>SHA-256 of the file</dt><dd><code>%s</code></dd>", display.EscapeLine(f.Digest))
		m.Add("\n")
		for _, stale := range f.Stale {
			m.Add("<dt>snapshot without a check</dt><dd>%s</dd>", display.EscapeLine(stale))
		}
		m.Add("</dl>\n</details>\n")
	}
	m.Add("</section>\n")
}

// markup adds a result, which has an id in the page.
func (r *htmlResult) markup(m *timeline.Markup, id string) {
	open := timeline.Safe("")
	if r.Class == "failed" || r.Class == "broken" {
		open = " open"
	}
	m.Add(`
<details class="check %s" id="%s" data-text="%s"%s>
<summary><span class="status %s">%s</span> <span class="name">`, r.Class, id, r.Found, open, r.Class, r.Word)
	m.AddIf("<small>%s:</small> ", display.EscapeLine(r.Phase))
	m.Add("%s", display.EscapeLine(r.Name))
	m.AddIf(" <small>%s</small>", r.Reason)
	m.Add("</span>")
	for _, tag := range r.Tags {
		m.Add(` <span class="tag">%s</span>`, display.EscapeLine(tag))
	}
	if r.Attempts > 1 {
		m.Add(` <span class="tag">%d attempts</span>`, r.Attempts)
	}
	if r.Class != "skipped" {
		m.Add(` <span class="took">%s</span>`, clock(r.Duration))
	}
	m.Add("</summary>\n<div class=\"body\">\n<p class=\"soft\">")
	for n, fact := range r.Facts {
		if n > 0 {
			m.Add(" · ")
		}
		m.Add("%s", fact)
	}
	m.Add("</p>\n")
	for _, p := range r.Problems {
		p.markup(m)
	}
	if r.Falls != "" {
		m.Add("<h3>Calls</h3>\n%s\n", r.Falls)
	}
	if len(r.Logs) > 0 {
		m.Add("<h3>Log")
		if r.Left > 0 {
			m.Add(" (%d earlier entries are not shown)", r.Left)
		}
		m.Add("</h3>\n<pre>")
		for _, l := range r.Logs {
			m.Add("%s\n", display.Escape(l))
		}
		m.Add("</pre>\n")
	}
	m.AddIf("<h3>Answer</h3>\n<pre>%s</pre>\n", r.Output)
	m.Add("</div>\n</details>\n")
}

// markup adds the problem.
func (p *Problem) markup(m *timeline.Markup) {
	m.Add("<div class=\"problem\">\n<p><strong>%s</strong>", headline(*p))
	if p.Line != 0 {
		m.Add(" <small>line %d</small>", p.Line)
	}
	m.Add("</p>\n")
	if p.Want != "" || p.Got != "" {
		m.Add("<dl>")
		m.AddIf("<dt>want</dt><dd><pre>%s</pre></dd>", display.Escape(p.Want))
		m.AddIf("<dt>got</dt><dd><pre>%s</pre></dd>", display.Escape(p.Got))
		m.Add("</dl>")
	}
	m.Add("\n")
	if lines := diffLines(p.Diff); len(lines) > 0 {
		m.Add(`<pre class="diff">`)
		for _, l := range lines {
			m.Add("<span")
			m.AddIf(` class="%s"`, l.Class)
			m.Add(">%s\n</span>", l.Text)
		}
		m.Add("</pre>")
	}
	m.Add("\n</div>\n")
}

// markup adds the coverage of tools.
func (c *Coverage) markup(m *timeline.Markup) {
	m.Add("\n<section class=\"coverage\" aria-labelledby=\"coverage\">\n<h2 id=\"coverage\">%s</h2>\n", c.String())
	for _, s := range c.Servers {
		one := Coverage{Servers: []Server{s}}
		m.Add(`<details class="server"><summary><span class="name">%s</span> <span class="meter" aria-hidden="true"><span style="width:%.1f%%"></span></span> <span class="soft">%s</span></summary>`+"\n<ul>",
			display.EscapeLine(s.Name), one.Percent(), s.state())
		for _, t := range s.Tools {
			if t.Called {
				m.Add(`<li class="called">%s</li>`, display.EscapeLine(t.Name))
			} else {
				m.Add(`<li class="uncalled">%s <small>not called</small></li>`, display.EscapeLine(t.Name))
			}
		}
		m.Add("</ul>\n</details>\n")
	}
	m.Add("</section>\n")
}
