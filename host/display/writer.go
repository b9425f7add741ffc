package display

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"
)

// Writer writes what others wrote to a terminal: as Text would have it, however it
// is cut into pieces. It may be used by several goroutines at once.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte // the beginning of a character, or a carriage return
}

// NewWriter returns a Writer to a terminal. Flush ends it.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Unwrap is the terminal, for what is fit to be shown and has escapes of its own,
// such as colours.
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

// Flush writes what was held back.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := io.WriteString(w.to, Text(string(w.held)))
	w.held = nil
	return err
}

// whole is how much of text can be told from what follows it.
func whole(text []byte) int {
	n := len(text)
	if n > 0 && text[n-1] == '\r' { // perhaps a line ends there
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
