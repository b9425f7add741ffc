package display

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"
)

// Writer writes foreign text to a terminal, made safe as by [Text], with any division into writes.
// A Writer is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte // an incomplete character, or a carriage return
}

// NewWriter returns a Writer to a terminal. Call Flush at the end.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Unwrap returns the terminal, for safe text with our own escapes, such as colours.
func (w *Writer) Unwrap() io.Writer { return w.to }

// Write implements io.Writer. The end of p may be held back until more is known.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.held, p...)
	n := whole(text)
	w.held = bytes.Clone(text[n:])
	if _, err := io.WriteString(w.to, Text(string(text[:n]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes the text held back.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := io.WriteString(w.to, Text(string(w.held)))
	w.held = nil
	return err
}

// whole returns the length of the part of text independent of the following bytes.
func whole(text []byte) int {
	n := len(text)
	if n > 0 && text[n-1] == '\r' { // possibly the first half of a line break
		return n - 1
	}
	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if c := text[n-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[n-back:]) {
				return n - back
			}
			break
		}
	}
	return n
}
