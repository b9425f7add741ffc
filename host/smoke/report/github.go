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
