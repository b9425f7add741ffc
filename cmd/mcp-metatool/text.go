package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

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

// table aligns rows of cells. Empty cells are shown as "-".
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = strings.ReplaceAll(display.Text(fmt.Sprint(c)), "\t", " "); texts[i] == "" && i < len(cells)-1 {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t table) flush() error { return t.w.Flush() }
