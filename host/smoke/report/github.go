package report

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// gitHub writes the same as text, and for each check without success a workflow command that
// annotates the check's line:
//
//	::error file=smoke.toml,line=17,col=1,title=summary tool::expect.result at $.open: other value
//
// All other text is written while commands are stopped, so no text from a server can be a command.
// The summary is appended to the file in GITHUB_STEP_SUMMARY, and the counts to the file in
// GITHUB_OUTPUT, as outputs of the step.
type gitHub struct {
	out       *sink
	log       *textWriter
	workspace string // removed from absolute paths below the workspace
	summary   string // file; "" for none
	output    string // file for the outputs of the step; "" for none
	token     string // resumes commands after stop-commands
	stopped   bool
	files     []File
}

func newGitHub(out *sink, o Options) *gitHub {
	var random [16]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	return &gitHub{
		out: out, log: &textWriter{out: out, paint: painter(o.Color), verbose: o.Verbose},
		workspace: o.Getenv("GITHUB_WORKSPACE"), summary: o.Getenv("GITHUB_STEP_SUMMARY"), output: o.Getenv("GITHUB_OUTPUT"),
		token: hex.EncodeToString(random[:]),
	}
}

// stop makes the runner ignore commands.
func (g *gitHub) stop() {
	if !g.stopped {
		g.stopped = true
		fmt.Fprintf(g.out, "::stop-commands::%s\n", g.token)
	}
}

func (g *gitHub) resume() {
	if g.stopped {
		g.stopped = false
		fmt.Fprintf(g.out, "::%s::\n", g.token)
	}
}

func (g *gitHub) Result(r Result) error {
	g.stop()
	if err := g.log.Result(r); err != nil || r.Status == Passed || r.Status == Skipped {
		return err
	}
	line, column := r.Line, r.Column
	var lines []string
	for _, p := range r.Problems {
		if lines == nil && p.Line > 0 {
			line, column = p.Line, p.Column
		}
		var d details
		d.problem(r, p)
		lines = append(lines, d.lines...)
	}
	if lines == nil {
		lines = []string{string(r.Status)}
	}
	g.command(r.File, line, column, r.title(), strings.Join(lines, "\n"))
	return g.out.flush()
}

func (g *gitHub) command(file string, line, column int, title, message string) {
	g.resume()
	props := []string{"file=" + property(g.relative(file))}
	if line > 0 {
		props = append(props, fmt.Sprintf("line=%d", line))
		if column > 0 {
			props = append(props, fmt.Sprintf("col=%d", column))
		}
	}
	if title != "" {
		props = append(props, "title="+property(title))
	}
	fmt.Fprintf(g.out, "::error %s::%s\n", strings.Join(props, ","), data(message))
}

func (g *gitHub) relative(file string) string {
	if g.workspace == "" {
		return file
	}
	path, err := filepath.Abs(file) // the step may run in another folder
	if err != nil {
		return file
	}
	rel, err := filepath.Rel(g.workspace, path)
	if err != nil || !filepath.IsLocal(rel) {
		return file
	}
	return filepath.ToSlash(rel)
}

// data and property escape texts as the runner expects (actions/toolkit,
// packages/core/src/command.ts).
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(display.Escape(s))
}

func property(s string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A", ",", "%2C").Replace(display.EscapeLine(s))
}

func (g *gitHub) File(f File) error {
	g.files = append(g.files, f)
	g.stop()
	if err := g.log.File(f); err != nil || f.Err == nil {
		return err
	}
	for _, err := range joinedErrors(f.Err) {
		line, column := 0, 0
		var p *config.Problem
		if errors.As(err, &p) {
			line, column = p.Line, p.Column
		}
		g.command(f.Path, line, column, "file cannot be run", err.Error())
	}
	return g.out.flush()
}

// joinedErrors returns the errors that are joined in err.
func joinedErrors(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, joinedErrors(e)...)
	}
	return all
}

func (g *gitHub) Close(s Summary) error {
	g.stop()
	if err := g.log.Close(s); err != nil {
		return err
	}
	g.resume()
	if err := g.out.flush(); err != nil {
		return err
	}
	return errors.Join(
		appendTo("GITHUB_STEP_SUMMARY", g.summary, markdown(g.files, s)),
		appendTo("GITHUB_OUTPUT", g.output, outputs(s)),
	)
}

// outputs returns the outputs of the step. All are numbers, so no text from a server can be an
// output.
func outputs(s Summary) string {
	text := fmt.Sprintf("checks=%d\npassed=%d\nfailed=%d\nbroken=%d\nskipped=%d\n", s.Checks(), s.Passed, s.Failed, s.Broken, s.Skipped)
	if s.Coverage != nil {
		text += fmt.Sprintf("coverage=%.1f\n", math.Floor(10*s.Coverage.Percent())/10)
	}
	return text
}

// appendTo appends to the file in a variable, unless the path is "".
func appendTo(variable, path, text string) (err error) {
	if path == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", variable, err)
		}
	}()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteString(text)
	return err
}

// maxMarkdown bounds a step summary in bytes. GitHub accepts 1 MiB for a step and shows nothing of
// a longer summary.
const maxMarkdown = 900 << 10

// marks are the states in the table of the summary.
var marks = map[Status]string{Passed: "✅ passed", Failed: "❌ failed", Skipped: "➖ skipped", Broken: "❌ broken"}

// markdown returns the step summary: a table of all checks, then the details of the checks without
// success. Omitted parts are mentioned.
func markdown(files []File, s Summary) string {
	m := document{}
	m.add(fmt.Sprintf("### Smoke checks: %s\n\n", text(s.String())))
	m.add("| check | file | result | time |\n| --- | --- | --- | --: |\n")
	for _, f := range files {
		if f.Err != nil {
			m.add(fmt.Sprintf("| | %s | ❌ could not be run | |\n", text(f.Path)))
		}
		for _, r := range f.Results {
			name, took := text(r.title()), clock(r.Duration)
			if len(r.Tags) > 0 {
				name += " <sub>" + text(strings.Join(r.Tags, ", ")) + "</sub>"
			}
			if r.Attempts > 1 {
				took += fmt.Sprintf(", %d attempts", r.Attempts)
			}
			m.add(fmt.Sprintf("| %s | %s | %s | %s |\n", name, text(r.File), marks[r.Status], took))
		}
	}
	m.notes(s)
	for _, f := range files {
		if f.Err != nil {
			m.details(f.Path, []string{display.Escape(f.Err.Error())})
		}
		for _, r := range f.Results {
			if r.Status == Failed || r.Status == Broken {
				m.details(r.title(), detailsOf(r, false))
			}
		}
	}
	return m.end()
}

// document is Markdown of bounded size.
type document struct {
	b    strings.Builder
	full bool
}

func (m *document) add(s string) {
	if m.full = m.full || m.b.Len()+len(s) > maxMarkdown; !m.full {
		m.b.WriteString(s)
	}
}

func (m *document) details(title string, lines []string) {
	body := strings.Join(lines, "\n")
	fence := "```"
	for strings.Contains(body, fence) {
		fence += "`"
	}
	m.add(fmt.Sprintf("\n<details><summary>%s</summary>\n\n%stext\n%s\n%s\n\n</details>\n", text(title), fence, body, fence))
}

// notes adds a table of the coverage of tools, and the snapshots without a check.
func (m *document) notes(s Summary) {
	if c := s.Coverage; c != nil {
		m.add(fmt.Sprintf("\n#### %s\n\n| server | tools called | not called |\n| --- | --- | --- |\n", text(c.String())))
		for i := range c.Servers {
			names := c.Servers[i].Uncalled()
			if more := len(names) - maxNotes; more > 0 {
				names = append(names[:maxNotes], fmt.Sprintf("%d more", more))
			}
			m.add(fmt.Sprintf("| %s | %s | %s |\n", text(c.Servers[i].Name), text(c.Servers[i].state()), text(strings.Join(names, ", "))))
		}
	}
	if len(s.Stale) > 0 {
		m.details("snapshots without a check", indented(s.Stale))
	}
}

func (m *document) end() string {
	if m.full {
		m.b.WriteString("\nMore did not fit here: see the log.\n")
	}
	return m.b.String()
}

// text escapes all characters with a meaning in Markdown or HTML.
func text(s string) string {
	var b strings.Builder
	for _, r := range display.EscapeLine(s) {
		if r < 0x80 && strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
