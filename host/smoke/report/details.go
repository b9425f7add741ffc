package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
