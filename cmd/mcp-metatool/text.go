package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// printable makes text that others wrote safe for a terminal: control
// characters other than line breaks and tabs become U+FFFD.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.Is(unicode.C, r) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// oneLine is printable text on one line of at most n characters.
func oneLine(text string, n int) string {
	text = strings.Join(strings.Fields(printable(text)), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// indentJSON is raw on several lines, its numbers as they are; raw itself if it
// is no JSON.
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

// table lays out rows of cells.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = strings.ReplaceAll(printable(fmt.Sprint(c)), "\t", " "); texts[i] == "" && i < len(cells)-1 {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t table) flush() error { return t.w.Flush() }

// formatBytes is a number of bytes for people.
func formatBytes(n uint64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
