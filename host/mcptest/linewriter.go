package mcptest

import (
	"io"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// LineWriter writes newline-delimited messages, each whole. A LineWriter is safe for concurrent
// use.
type LineWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewLineWriter returns a LineWriter to w.
func NewLineWriter(w io.Writer) *LineWriter { return &LineWriter{w: w} }

// Write writes a message and a newline.
func (w *LineWriter) Write(msg []byte) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _, w.buf, err = wire.WriteLines(w.w, w.buf, [][]byte{msg})
	return err
}
