package report

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"

	_ "embed"

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
