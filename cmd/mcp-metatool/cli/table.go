package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// IndentJSON returns raw on several lines, with unchanged numbers. Text other than JSON is returned
// unchanged.
func IndentJSON(raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return raw
	}
	return bytes.TrimSpace(b.Bytes())
}

// WriteJSON writes v for programs, on several lines.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Table is a display.Table that fits its terminal.
type Table struct {
	display.Table
	w io.Writer
}

func NewTable(w io.Writer) *Table {
	return &Table{Table: display.Table{Width: Columns(w), Color: HasColor(w)}, w: Raw(w)}
}

// Right is the head of a right-aligned column.
type Right string

// Head sets the heads of the columns: texts, or values of type right. A head can have a
// short form after "|".
func (t *Table) Head(heads ...any) {
	for _, h := range heads {
		_, number := h.(Right)
		head, short, _ := strings.Cut(fmt.Sprint(h), "|")
		t.Columns = append(t.Columns, display.Column{Head: head, Short: short, Right: number})
	}
}

// Add adds a row: values of type display.Cell, times, and texts or other values.
func (t *Table) Add(cells ...any) {
	row := make([]display.Cell, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case display.Cell:
			row[i] = c
		case time.Time:
			row[i] = TimeCell(c)
		default:
			row[i] = display.Cell{Text: fmt.Sprint(c)}
		}
	}
	t.Row(row...)
}

func (t *Table) Flush() error { return t.Write(t.w) }

// TimeCell shows a time, without its offset where the table is narrow.
func TimeCell(at time.Time) display.Cell {
	return display.Cell{Text: Stamp(at), Short: at.Local().Format("01-02 15:04:05")}
}

func Stamp(t time.Time) string { return display.Time(t, time.Second) }

// stateStyles are the styles of words for states and outcomes.
var stateStyles = map[string]display.Style{
	"ok": display.Good, "ready": display.Good, "healthy": display.Good, "pass": display.Good,
	"failed": display.Bad, "error": display.Bad, "down": display.Bad, "unhealthy": display.Bad,
	"asleep": display.Faint, "disabled": display.Faint, "unfinished": display.Caution, "asks": display.Caution,
	"warning": display.Caution,
}

// State shows a state or an outcome in its colour.
func State(word string) display.Cell {
	style := stateStyles[word]
	if IsErrorClass(word) {
		style = display.Bad
	}
	return display.Cell{Text: word, Style: style}
}

// diffWriter colours the diffs that are written to out. Each Write has whole lines.
type diffWriter struct{ out io.Writer }

func NewDiffWriter(out io.Writer) diffWriter { return diffWriter{out} }

// Write implements io.Writer.
func (w diffWriter) Write(p []byte) (int, error) {
	if !HasColor(w.out) {
		return w.out.Write(p)
	}
	_, err := io.WriteString(Raw(w.out), ColorDiff(w.out, display.Text(string(p))))
	return len(p), err
}

// ColorDiff colours the lines of a unified diff for out. text is displayable.
func ColorDiff(out io.Writer, text string) string {
	if !HasColor(out) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		style := display.Plain
		switch mark := strings.TrimLeft(body, " "); {
		case strings.HasPrefix(mark, "+++ "), strings.HasPrefix(mark, "--- "):
			style = display.Bold
		case strings.HasPrefix(mark, "@@"):
			style = display.Faint
		case strings.HasPrefix(mark, "+"):
			style = display.Added
		case strings.HasPrefix(mark, "-"):
			style = display.Removed
		}
		b.WriteString(style.Apply(body) + line[len(body):])
	}
	return b.String()
}

func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

var ErrorClasses = []string{"validation", "runtime", "tool", "timeout", "resource", "cancelled", "permission", "internal"}

func IsErrorClass(name string) bool {
	for _, class := range ErrorClasses {
		if class == name {
			return true
		}
	}
	return false
}

// ShortRun returns the beginning of an id, which contains the millisecond of the start.
// Few runs have the same.
func ShortRun(id string) string { return id[:min(len(id), 18)] }

func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Indented returns text from servers and clients, displayable and with each line indented.
func Indented(text string) string {
	text = strings.TrimRight(display.Text(text), "\n")
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
