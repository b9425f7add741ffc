package report

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// hasColors reports whether to use colours on w (https://no-color.org).
func hasColors(w io.Writer, getenv func(string) string) bool {
	f, ok := w.(*os.File)
	return ok && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// textWriter writes lines for people, as results arrive:
//
//	smoke.toml
//	  ok      adds (12ms)
//	  FAILED  summary tool (310ms)
//	          expect.result at $.open: other value (smoke.toml:17:1)
//	            want: 3
//	            got:  4
//
//	2 checks in 1 file: 1 passed, 1 failed (330ms)
type textWriter struct {
	out     *sink
	paint   painter
	verbose bool
	file    string // the file of the last result
	begun   bool
}

// detailIndent is the indentation of the details of a check.
const detailIndent = "          "

// words are the states, all of the same width.
var words = map[Status][2]string{
	Passed:  {"ok    ", green},
	Failed:  {"FAILED", red},
	Skipped: {"skip  ", yellow},
	Broken:  {"BROKEN", red},
}

func (t *textWriter) Result(r Result) error {
	t.heading(r.File)
	word := words[r.Status]
	if word[0] == "" {
		word = words[Failed]
	}
	line := fmt.Sprintf("  %s  %s", t.paint.color(word[1], word[0]), display.EscapeLine(r.title()))
	if r.Status == Skipped {
		if why := reason(r); why != "" {
			line += t.paint.color(faint, ": "+why)
		}
		fmt.Fprintln(t.out, line)
		return t.out.flush()
	}
	took := clock(r.Duration)
	if r.Attempts > 1 {
		took += fmt.Sprintf(", %d attempts", r.Attempts)
	}
	fmt.Fprintln(t.out, line+t.paint.color(faint, " ("+took+")"))
	if r.Status != Passed || t.verbose {
		if r.Status != Passed && len(r.Problems) == 0 {
			t.detail(place(r.File, r.Line, r.Column))
		}
		for _, line := range detailsOf(r, t.paint) {
			t.detail(line)
		}
	}
	return t.out.flush()
}

func (t *textWriter) detail(line string) {
	fmt.Fprintln(t.out, strings.TrimRight(detailIndent+line, " "))
}

// heading starts the results of a file.
func (t *textWriter) heading(file string) {
	if t.begun && t.file == file {
		return
	}
	t.begun, t.file = true, file
	fmt.Fprintln(t.out, t.paint.color(bold, display.EscapeLine(file)))
}

func (t *textWriter) File(f File) error {
	if f.Err == nil && len(f.Results) > 0 {
		return nil
	}
	t.heading(f.Path)
	if f.Err == nil {
		fmt.Fprintln(t.out, "  no checks")
		return t.out.flush()
	}
	fmt.Fprintf(t.out, "  %s\n", t.paint.color(red, "WRONG"))
	for line := range strings.SplitSeq(display.Escape(f.Err.Error()), "\n") {
		t.detail(line)
	}
	return t.out.flush()
}

func (t *textWriter) Close(s Summary) error {
	code := green
	if s.ExitCode() != 0 {
		code = red
	}
	fmt.Fprintf(t.out, "\n%s\n", t.paint.color(code, s.String()))
	for _, line := range s.notes() {
		fmt.Fprintln(t.out, line)
	}
	return t.out.flush()
}

// maxNotes bounds the lines about stale snapshots, and about the tools of a server.
const maxNotes = 50

// notes returns lines about facts outside of results: the coverage of tools, and snapshots without
// a check.
func (s Summary) notes() []string {
	var lines []string
	if s.Coverage != nil {
		lines = append(lines, s.Coverage.String())
		for i := range s.Coverage.Servers {
			lines = append(lines, s.Coverage.Servers[i].lines()...)
		}
	}
	if len(s.Stale) > 0 {
		lines = append(lines, count(len(s.Stale), "snapshot")+" without a check (remove what is not needed any more):")
		lines = append(lines, indented(s.Stale)...)
	}
	return lines
}

// indented returns names as lines, with the number of names beyond maxNotes.
func indented(names []string) []string {
	var lines []string
	for i, name := range names {
		if i == maxNotes {
			return append(lines, fmt.Sprintf("    … (%d more)", len(names)-i))
		}
		lines = append(lines, "    "+display.EscapeLine(name))
	}
	return lines
}

// String returns a line such as
//
//	3 checks in 1 file: 1 passed, 1 failed, 1 skipped (330ms)
func (s Summary) String() string {
	parts := []string{fmt.Sprintf("%d passed", s.Passed)}
	for _, p := range []struct {
		n    int
		noun string
	}{{s.Failed, "failed"}, {s.Broken, "broken"}, {s.Skipped, "skipped"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.noun))
		}
	}
	line := fmt.Sprintf("%s in %s: %s", count(s.Checks(), "check"), count(s.Files, "file"), strings.Join(parts, ", "))
	if s.BadFiles > 0 {
		line += fmt.Sprintf("; %s could not be run", count(s.BadFiles, "file"))
	}
	return line + " (" + clock(s.Duration) + ")"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
