package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// DefaultMaxMessage is the default cap on one incoming message, in bytes.
const DefaultMaxMessage = 64 << 20

// TooLargeError says that an incoming message was longer than the cap. The
// message was skipped; reading can go on.
type TooLargeError struct {
	Limit int // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message is larger than %d bytes (raise max_message)", e.Limit)
}

// Reader reads newline-delimited messages (MCP stdio transport, revision
// 2025-11-25, basic/transports). It is for one goroutine.
type Reader struct {
	r   *bufio.Reader
	max int
}

// NewReader makes a Reader whose messages are at most max bytes long (0:
// DefaultMaxMessage).
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMaxMessage
	}
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// Read returns the next message without its line ending; the caller owns it.
// Blank lines are skipped. After a *TooLargeError the next Read goes on behind
// that message. A last line without a newline is a message too; then comes
// io.EOF.
func (r *Reader) Read() ([]byte, error) {
	for {
		line, err := r.line()
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			return trimmed, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *Reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
		if len(line)+len(part) > r.max+len("\r\n") {
			return nil, r.skip(err)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// skip drops the rest of the line whose last part was read with err.
func (r *Reader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return &TooLargeError{Limit: r.max}
}

// Writer writes newline-delimited messages. It is safe for concurrent use;
// messages are written whole and in the order of the calls.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
	err error
}

// NewWriter makes a Writer.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one message and its line ending with a single call of the
// underlying Write, and returns when that has returned. Line breaks between
// tokens are replaced by spaces, which changes no JSON value. After an error
// every later call returns the same error.
func (w *Writer) Write(msg []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.buf = append(w.buf[:0], msg...)
	for i, c := range w.buf {
		if c == '\n' || c == '\r' {
			w.buf[i] = ' '
		}
	}
	w.buf = append(w.buf, '\n')
	_, w.err = w.w.Write(w.buf)
	if cap(w.buf) > 1<<20 { // one huge message must not pin its size for ever
		w.buf = nil
	}
	return w.err
}
