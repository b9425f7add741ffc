package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// tapWriter writes TAP 14 (https://testanything.org/tap-version-14-specification.html): a test
// point per check, "FILE: NAME", with a YAML diagnostic with these keys, unless they have no value:
//
//	status, file, line, column, duration_ms, attempts, row, tags, logs, output
//	problems: list of {what, path, message, want, got, diff, line, column}
//
// Of passed and skipped checks, only duration, attempts, row and tags are written. A file that
// could not be run is a separate test point. The plan comes last.
type tapWriter struct {
	out   *sink
	count int
}

func (t *tapWriter) point(ok bool, description, directive string) {
	if t.count == 0 {
		t.out.WriteString("TAP version 14\n")
	}
	t.count++
	word := "not ok"
	if ok {
		word = "ok"
	}
	fmt.Fprintf(t.out, "%s %d - %s%s\n", word, t.count, tapText(description), directive)
}

// tapText escapes characters that have a meaning in TAP.
func tapText(s string) string {
	return strings.NewReplacer(`\`, `\\`, `#`, `\#`).Replace(display.EscapeLine(s))
}

func (t *tapWriter) Result(r Result) error {
	directive := ""
	if r.Status == Skipped {
		directive = strings.TrimRight(" # SKIP "+tapText(reason(r)), " ")
	}
	ok := r.Status == Passed || r.Status == Skipped
	name := r.title()
	if r.File != "" {
		name = r.File + ": " + name
	}
	t.point(ok, name, directive)
	y := yaml{out: t.out}
	y.open()
	if !ok {
		y.text(1, "status", string(r.Status))
		y.text(1, "file", r.File)
		y.number(1, "line", r.Line)
		y.number(1, "column", r.Column)
	}
	fmt.Fprintf(t.out, "  duration_ms: %.3f\n", float64(r.Duration.Microseconds())/1000)
	if r.Attempts > 1 {
		y.number(1, "attempts", r.Attempts)
	}
	y.text(1, "row", r.Row.String())
	y.text(1, "tags", strings.Join(r.Tags, ", "))
	if !ok {
		y.problems(r.Problems)
		y.list("logs", r.Logs)
		y.text(1, "output", r.extraOutput())
	}
	y.close()
	return t.out.flush()
}

func (t *tapWriter) File(f File) error {
	if f.Err == nil {
		return nil
	}
	t.point(false, f.Path, "")
	y := yaml{out: t.out}
	y.open()
	y.text(1, "status", "wrong")
	y.text(1, "file", f.Path)
	y.text(1, "message", f.Err.Error())
	y.close()
	return t.out.flush()
}

func (t *tapWriter) Close(s Summary) error {
	if t.count == 0 {
		t.out.WriteString("TAP version 14\n1..0 # SKIP no checks\n")
		return t.out.flush()
	}
	fmt.Fprintf(t.out, "1..%d\n# %s\n", t.count, s.String())
	for _, line := range s.notes() {
		fmt.Fprintf(t.out, "# %s\n", line)
	}
	return t.out.flush()
}

// yaml writes the diagnostic of a test point. A level is two spaces.
type yaml struct{ out *sink }

func (y yaml) open()  { y.out.WriteString("  ---\n") }
func (y yaml) close() { y.out.WriteString("  ...\n") }

func (y yaml) indent(level int) { y.out.WriteString(strings.Repeat("  ", level)) }

func (y yaml) number(level int, key string, n int) {
	if n != 0 {
		y.indent(level)
		fmt.Fprintf(y.out, "%s: %d\n", key, n)
	}
}

func (y yaml) text(level int, key, s string) {
	if s != "" {
		y.indent(level)
		y.out.WriteString(key + ": ")
		y.scalar(level, s)
	}
}

// scalar writes a text: a single line in quotes, several lines as a literal block with
// explicit indentation (YAML 1.2, section 8.1).
func (y yaml) scalar(level int, s string) {
	s = display.Escape(s)
	if !isMultiline(s) {
		y.out.WriteString(strconv.Quote(s) + "\n")
		return
	}
	chomp, body := "-", s
	if strings.HasSuffix(s, "\n") {
		chomp, body = "+", strings.TrimSuffix(s, "\n")
	}
	y.out.WriteString("|2" + chomp + "\n")
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			y.indent(level + 1)
		}
		y.out.WriteString(line + "\n")
	}
}

func (y yaml) list(key string, items []string) {
	if len(items) == 0 {
		return
	}
	y.out.WriteString("  " + key + ":\n")
	for _, item := range items {
		y.out.WriteString("    - ")
		y.scalar(2, item)
	}
}

func (y yaml) problems(list []Problem) {
	if len(list) == 0 {
		return
	}
	y.out.WriteString("  problems:\n")
	for _, p := range list {
		y.out.WriteString("    - message: ")
		y.scalar(3, p.Message)
		y.text(3, "what", p.Expectation)
		y.text(3, "path", p.Path)
		y.text(3, "want", p.Want)
		y.text(3, "got", p.Got)
		y.text(3, "diff", p.Diff)
		y.number(3, "line", p.Line)
		y.number(3, "column", p.Column)
	}
}
