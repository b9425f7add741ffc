package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// indentJSON returns raw on several lines, with unchanged numbers. If raw is not JSON, it
// returns raw.
func indentJSON(raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return raw
	}
	return bytes.TrimSpace(b.Bytes())
}

// writeJSON writes v for programs, on several lines.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table is a display.Table that fits the terminal it is written to.
type table struct {
	display.Table
	w io.Writer
}

func newTable(w io.Writer) *table {
	return &table{Table: display.Table{Width: columns(w), Color: hasColor(w)}, w: raw(w)}
}

// right is the head of a column that is aligned at the right.
type right string

// head sets the heads of the columns: texts, or values of type right. A head can have a
// short form after "|".
func (t *table) head(heads ...any) {
	for _, h := range heads {
		_, number := h.(right)
		head, short, _ := strings.Cut(fmt.Sprint(h), "|")
		t.Columns = append(t.Columns, display.Column{Head: head, Short: short, Right: number})
	}
}

// row adds a row: values of type display.Cell, times, and texts or other values.
func (t *table) row(cells ...any) {
	row := make([]display.Cell, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case display.Cell:
			row[i] = c
		case time.Time:
			row[i] = timeCell(c)
		default:
			row[i] = display.Cell{Text: fmt.Sprint(c)}
		}
	}
	t.Row(row...)
}

func (t *table) flush() error { return t.Write(t.w) }

// timeCell shows a time, without its offset where there is little room.
func timeCell(at time.Time) display.Cell {
	return display.Cell{Text: stamp(at), Short: at.Local().Format("01-02 15:04:05")}
}

func stamp(t time.Time) string { return display.Time(t, time.Second) }

// stateStyles are the styles of words for states and outcomes.
var stateStyles = map[string]display.Style{
	"ok": display.Good, "ready": display.Good, "healthy": display.Good, "pass": display.Good,
	"failed": display.Bad, "error": display.Bad, "down": display.Bad, "unhealthy": display.Bad,
	"asleep": display.Faint, "disabled": display.Faint, "unfinished": display.Caution, "asks": display.Caution,
	"warning": display.Caution,
}

// state shows a state or an outcome in its colour.
func state(word string) display.Cell {
	style := stateStyles[word]
	if isErrorClass(word) {
		style = display.Bad
	}
	return display.Cell{Text: word, Style: style}
}

// diffWriter colours the diffs that are written to out. Each Write has whole lines.
type diffWriter struct{ out io.Writer }

// Write implements io.Writer.
func (w diffWriter) Write(p []byte) (int, error) {
	if !hasColor(w.out) {
		return w.out.Write(p)
	}
	_, err := io.WriteString(raw(w.out), colorDiff(w.out, display.Text(string(p))))
	return len(p), err
}

// colorDiff colours the lines of a unified diff for out. text is displayable.
func colorDiff(out io.Writer, text string) string {
	if !hasColor(out) {
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
