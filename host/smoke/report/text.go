package report

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

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
		lines = append(lines, count(len(s.Stale), "snapshot")+" without a check (remove snapshots that are no longer needed):")
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

// The limits of the shown details of a check.
const (
	maxLogs        = 50 // entries; the last ones are shown
	maxOutputLines = 60
)

// Colors of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
	faint  = "2"
)

// painter colours texts if true.
type painter bool

func (p painter) color(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// details collects lines about a check: its problems, logs and output. All lines are printable.
type details struct {
	paint painter
	lines []string
}

// detailsOf describes a check without success.
func detailsOf(r Result, paint painter) []string {
	d := details{paint: paint}
	d.row(r.Row)
	for _, p := range r.Problems {
		d.problem(r, p)
	}
	d.logs(r.Logs)
	d.output(r.extraOutput())
	return d.lines
}

// extraOutput returns the output, unless a problem already shows the same text: for a failed tool,
// both are the tool's error.
func (r *Result) extraOutput() string {
	for _, p := range r.Problems {
		if p.Got == r.Output {
			return ""
		}
	}
	return r.Output
}

func (d *details) row(row Row) {
	if text := row.String(); text != "" {
		d.add(0, d.paint.color(faint, text))
	}
}

func (d *details) add(indent int, s string) {
	d.lines = append(d.lines, strings.Repeat(" ", indent)+s)
}

func (d *details) problem(r Result, p Problem) {
	head := d.paint.color(bold, headline(p))
	if p.Line > 0 {
		head += d.paint.color(faint, fmt.Sprintf(" (%s)", place(r.File, p.Line, p.Column)))
	}
	d.add(0, head)
	if p.Diff == "" || !isMultiline(p.Want) && !isMultiline(p.Got) {
		d.side("want: ", p.Want)
		d.side("got:  ", p.Got)
	}
	d.diff(p.Diff)
}

// title returns the name of a check, with its phase except for the main phase.
func (r *Result) title() string {
	if r.Phase == "" {
		return r.Name
	}
	return r.Phase + ": " + r.Name
}

// headline summarises a problem in a line.
func headline(p Problem) string {
	var b strings.Builder
	b.WriteString(display.EscapeLine(p.Expectation))
	if p.Path != "" && p.Path != "$" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString("at " + display.EscapeLine(p.Path))
	}
	if b.Len() > 0 && p.Message != "" {
		b.WriteString(": ")
	}
	b.WriteString(display.EscapeLine(p.Message))
	return b.String()
}

// place formats a position in a file.
func place(file string, line, column int) string {
	s := display.EscapeLine(file)
	if line > 0 {
		s += fmt.Sprintf(":%d", line)
		if column > 0 {
			s += fmt.Sprintf(":%d", column)
		}
	}
	return s
}

func isMultiline(s string) bool { return strings.Contains(s, "\n") }

// side shows the wanted or the received value.
func (d *details) side(label, s string) {
	switch s = display.Escape(s); {
	case s == "":
	case isMultiline(s):
		d.add(2, strings.TrimSpace(label))
		d.block(4, s)
	default:
		d.add(2, label+s)
	}
}

func (d *details) block(indent int, s string) {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, line := range lines {
		if i == maxOutputLines {
			d.add(indent, fmt.Sprintf("… (%d more lines)", len(lines)-i))
			return
		}
		d.add(indent, line)
	}
}

// diff shows a unified diff, which has been clipped already.
func (d *details) diff(s string) {
	if s == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(display.Escape(s), "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "-"):
			line = d.paint.color(red, line)
		case strings.HasPrefix(line, "+"):
			line = d.paint.color(green, line)
		case strings.HasPrefix(line, "@@"):
			line = d.paint.color(cyan, line)
		}
		d.add(2, line)
	}
}

func (d *details) logs(logs []string) {
	if more := len(logs) - maxLogs; more > 0 {
		d.add(0, fmt.Sprintf("log: … (%d earlier entries)", more))
		logs = logs[more:]
	}
	for _, entry := range logs {
		lines := strings.Split(strings.TrimSuffix(display.Escape(entry), "\n"), "\n")
		d.add(0, d.paint.color(faint, "log: ")+lines[0])
		for _, line := range lines[1:] {
			d.add(5, line)
		}
	}
}

func (d *details) output(s string) {
	if s = display.Escape(s); s == "" {
		return
	}
	if !isMultiline(s) {
		d.add(0, d.paint.color(faint, "output: ")+s)
		return
	}
	d.add(0, d.paint.color(faint, "output:"))
	d.block(2, s)
}

// clock formats a duration for people.
func clock(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// reason returns why a check was skipped.
func reason(r Result) string {
	if len(r.Problems) == 0 {
		return ""
	}
	return display.EscapeLine(r.Problems[0].Message)
}

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
