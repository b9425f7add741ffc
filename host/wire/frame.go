package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
)

// DefaultMaxMessage is the default cap on one incoming message, in bytes.
const DefaultMaxMessage = 64 << 20

// TooLargeError says that an incoming message was longer than the limit. The message
// was skipped; reading can continue.
type TooLargeError struct {
	Limit int // bytes
	// Budget reports that the limit follows from the budget of all messages rather
	// than from the limit for one message.
	Budget bool
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message is larger than %d bytes", e.Limit)
}

// LimitName returns the name of the limit that was reached, as in package limits, which
// says what to do about it.
func (e *TooLargeError) LimitName() string {
	if e.Budget {
		return "total_memory"
	}
	return "message"
}

// Reader reads newline-delimited messages (MCP stdio transport, revision
// 2025-11-25, basic/transports). It must not be used concurrently.
type Reader struct {
	r      *bufio.Reader
	max    int
	budget *ReadBudget
}

// smallMessage is the size in bytes up to which a message does not wait for memory. It
// is also the size of the read buffer.
const smallMessage = budget.Small

// NewReader returns a Reader for messages of at most max bytes (0:
// DefaultMaxMessage).
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMaxMessage
	}
	return &Reader{r: bufio.NewReaderSize(r, smallMessage), max: max}
}

// WithBudget makes the Reader reserve memory in b before it reads a large message.
func (r *Reader) WithBudget(b *ReadBudget) *Reader {
	r.budget = b
	return r
}

// Read returns the next message without its line ending. The caller owns it. Read skips
// blank lines. After a *TooLargeError the next Read continues after that message. A
// last line without a newline is a message too; after it Read returns io.EOF.
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
	part, err := r.r.ReadSlice('\n')
	if len(part) > r.max+len("\r\n") {
		return nil, r.skip(err)
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return append([]byte(nil), part...), err
	}
	line := r.budget.message(r.max)
	for {
		if bad := line.add(part); bad != nil {
			return nil, r.reject(bad, err)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line.done(), err
		}
		part, err = r.r.ReadSlice('\n')
	}
}

// reject skips the rest of a message that failed with bad. err is the error with which
// its last part was read.
func (r *Reader) reject(bad, err error) error {
	var large *TooLargeError
	if !errors.As(bad, &large) {
		return bad // the context ended while waiting for memory
	}
	if err := r.skip(err); !errors.As(err, new(*TooLargeError)) {
		return err
	}
	return bad
}

// skip skips the rest of a line. err is the error with which its last part was read.
func (r *Reader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return &TooLargeError{Limit: r.max}
}

// Writer writes newline-delimited messages. It is safe for concurrent use; messages are
// written whole and in the order of the calls. Messages that arrive during a Write of
// the underlying writer are gathered and written together by the next Write. One of the
// waiting callers is woken to make it.
type Writer struct {
	w   io.Writer
	buf []byte // used by the goroutine that writes

	mu      sync.Mutex    // guards the fields up to err
	waiting [][]byte      // the next batch, which is being gathered
	spare   [][]byte      // memory for the batch after that
	posted  bool          // the next batch has messages from Post
	running bool          // Run is running
	next    uint64        // number of the next batch
	done    uint64        // number of the first batch that is not written
	writing bool          // the batch before the next one is being written
	written [2]*sync.Cond // what callers of batches with even and odd numbers wait on
	err     error

	wake chan struct{} // holds a token while Run may have something to do
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{w: w, wake: make(chan struct{}, 1)}
	out.written = [2]*sync.Cond{sync.NewCond(&out.mu), sync.NewCond(&out.mu)}
	return out
}

// Write writes one message and a newline, and returns when they are written. It
// replaces line breaks between tokens by spaces, which changes no JSON value. After an
// error all later calls return the same error. Calls that were waiting return it too,
// although some of their messages may have been written.
func (w *Writer) Write(msg []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.waiting = append(w.waiting, msg)
	return w.waitWritten()
}

// waitWritten returns when the next batch is written. It writes it if no other caller
// does. The caller holds w.mu.
func (w *Writer) waitWritten() error {
	own := w.next
	for w.writing && w.done <= own {
		w.written[own%2].Wait()
	}
	if w.done <= own && w.err == nil {
		w.writeBatch()
	}
	return w.err
}

// maxPosted bounds the messages that wait for Run, including those of Write.
const maxPosted = 256

// Post is Write for callers that must not wait: Run writes the message. Post returns
// false, without taking the message, if Run is not running, if so many messages wait that the
// peer seems not to read, or after an error.
func (w *Writer) Post(msg []byte) bool {
	w.mu.Lock()
	if !w.running || w.err != nil || len(w.waiting) >= maxPosted {
		w.mu.Unlock()
		return false
	}
	w.waiting = append(w.waiting, msg)
	first := !w.posted
	w.posted = true
	w.mu.Unlock()
	if first {
		select {
		case w.wake <- struct{}{}:
		default: // it is awake already
		}
	}
	return true
}

// Run writes posted messages until stop is closed, then the ones that remain. It
// returns the error of the Writer.
func (w *Writer) Run(stop <-chan struct{}) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = true
	for w.running && w.err == nil {
		w.mu.Unlock()
		stopped := false
		select {
		case <-w.wake:
		case <-stop:
			stopped = true
		}
		w.mu.Lock()
		w.running = !stopped // from now on Post refuses messages
		if w.posted && w.err == nil {
			_ = w.waitWritten() // w.err is checked below
		}
	}
	w.running = false
	return w.err
}

// writeBatch writes the next batch. The caller holds w.mu.
func (w *Writer) writeBatch() {
	w.writing = true
	w.mu.Unlock()
	runtime.Gosched() // goroutines that are about to write join the batch; costs nothing if there are none
	w.mu.Lock()
	batch := w.waiting
	w.waiting, w.posted = w.spare[:0], false
	w.next++
	w.mu.Unlock()
	err := w.flush(batch)
	clear(batch)
	w.mu.Lock()
	w.spare, w.writing, w.done, w.err = batch, false, w.next, err
	w.written[(w.next-1)%2].Broadcast()
	if err != nil {
		w.written[w.next%2].Broadcast()
	} else {
		w.written[w.next%2].Signal() // one caller writes the next batch
	}
}

// flush writes a batch.
func (w *Writer) flush(batch [][]byte) (err error) {
	_, _, w.buf, err = WriteLines(w.w, w.buf, batch)
	return err
}

const (
	// maxGather is how many bytes are gathered for one Write.
	maxGather = 64 << 10
	// maxReused is the size in bytes of the largest buffer that is used again, so
	// that one huge message does not pin its memory.
	maxReused = 1 << 20
)

// WriteLines writes messages, each with a newline, many with one Write. Line breaks
// within messages become spaces. After an error, whole is the number of messages that
// were written completely, begun the number of those that were written at least in part.
// buf is working memory; reuse can be passed as buf the next time.
func WriteLines(w io.Writer, buf []byte, msgs [][]byte) (whole, begun int, reuse []byte, err error) {
	for from, i := 0, 0; i < len(msgs); i++ {
		if len(msgs[i]) >= maxReused && isLine(msgs[i]) { // buf is empty, since the message did not fit
			if n, err := writeLine(w, msgs[i]); err != nil {
				return i, i + min(n, 1), nil, err
			}
			from = i + 1
			continue
		}
		buf = appendLine(buf, msgs[i])
		if i+1 < len(msgs) && len(buf)+len(msgs[i+1]) < maxGather {
			continue
		}
		n, err := w.Write(buf)
		if err != nil {
			whole, begun = countWritten(msgs[from:], n)
			return from + whole, from + begun, nil, err
		}
		if buf = buf[:0]; cap(buf) > maxReused {
			buf = nil
		}
		from = i + 1
	}
	return len(msgs), len(msgs), buf, nil
}

// isLine reports whether a message has no line breaks and can be written as it is.
func isLine(msg []byte) bool { return bytes.IndexByte(msg, '\n') < 0 && bytes.IndexByte(msg, '\r') < 0 }

// writeLine writes a message without copying it; n is how much of it was written.
func writeLine(w io.Writer, msg []byte) (n int, err error) {
	if n, err = w.Write(msg); err == nil {
		_, err = w.Write([]byte("\n"))
	}
	return n, err
}

// countWritten returns how many messages are contained in the first n bytes of their
// lines, wholly and at least in part.
func countWritten(msgs [][]byte, n int) (whole, begun int) {
	for _, msg := range msgs {
		if n > 0 {
			begun++
		}
		if n -= len(msg) + 1; n < 0 {
			break
		}
		whole++
	}
	return whole, begun
}

func appendLine(b, msg []byte) []byte {
	at := len(b)
	b = append(b, msg...)
	for _, c := range []byte("\n\r") {
		for line := b[at:]; ; {
			i := bytes.IndexByte(line, c)
			if i < 0 {
				break
			}
			line[i] = ' '
			line = line[i+1:]
		}
	}
	return append(b, '\n')
}
