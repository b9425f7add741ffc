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

// TooLargeError says that an incoming message was longer than the cap. The
// message was skipped; reading can go on.
type TooLargeError struct {
	Limit int // bytes
	// Budget says that the cap follows from the budget of all messages, and not
	// from that of one message.
	Budget bool
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message is larger than %d bytes", e.Limit)
}

// LimitName is the name of the limit that was met; see package limits, which says
// what to do about it.
func (e *TooLargeError) LimitName() string {
	if e.Budget {
		return "total_memory"
	}
	return "message"
}

// Reader reads newline-delimited messages (MCP stdio transport, revision
// 2025-11-25, basic/transports). It is for one goroutine.
type Reader struct {
	r    *bufio.Reader
	max  int
	room *Room
}

// smallMessage is the size up to which a message does not wait for room: what is
// read at a time.
const smallMessage = budget.Small

// NewReader makes a Reader whose messages are at most max bytes long (0:
// DefaultMaxMessage).
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMaxMessage
	}
	return &Reader{r: bufio.NewReaderSize(r, smallMessage), max: max}
}

// Within makes large messages wait for room before they are read.
func (r *Reader) Within(room *Room) *Reader {
	r.room = room
	return r
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
	part, err := r.r.ReadSlice('\n')
	if len(part) > r.max+len("\r\n") {
		return nil, r.skip(err)
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return append([]byte(nil), part...), err
	}
	line := r.room.message(r.max)
	for {
		if bad := line.add(part); bad != nil {
			return nil, r.giveUp(bad, err)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line.done(), err
		}
		part, err = r.r.ReadSlice('\n')
	}
}

// giveUp drops a message that bad is wrong with, whose last part was read with
// err.
func (r *Reader) giveUp(bad, err error) error {
	var large *TooLargeError
	if !errors.As(bad, &large) {
		return bad // there was no room until the reader had to end
	}
	if err := r.skip(err); !errors.As(err, new(*TooLargeError)) {
		return err
	}
	return bad
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
// messages are written whole and in the order of the calls. What is to be
// written while a Write of the underlying writer is under way goes out together
// in the next one, by the caller that is woken for it.
type Writer struct {
	w   io.Writer
	buf []byte // of whoever writes

	mu      sync.Mutex // guards what follows
	waiting [][]byte   // the batch that gathers
	spare   [][]byte
	posted  bool          // something of it came from Post
	runs    bool          // Run does
	number  uint64        // of the batch that gathers
	done    uint64        // number of the first batch that is not written
	writing bool          // the one before the batch that gathers is being written
	turns   [2]*sync.Cond // what callers of batches with even and odd numbers wait on
	err     error

	wake chan struct{} // holds a token while Run may have something to do
}

// NewWriter makes a Writer.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{w: w, wake: make(chan struct{}, 1)}
	out.turns = [2]*sync.Cond{sync.NewCond(&out.mu), sync.NewCond(&out.mu)}
	return out
}

// Write writes one message and its line ending, and returns when they are
// written. Line breaks between tokens are replaced by spaces, which changes no
// JSON value. After an error every later call returns the same error; calls
// that were waiting return it too, some of whose messages may have been written.
func (w *Writer) Write(msg []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.waiting = append(w.waiting, msg)
	return w.turn()
}

// turn returns when the batch that gathers is written. Its caller holds w.mu.
func (w *Writer) turn() error {
	own := w.number
	for w.writing && w.done <= own {
		w.turns[own%2].Wait()
	}
	if w.done <= own && w.err == nil {
		w.lead()
	}
	return w.err
}

// maxPosted bounds the messages that wait for Run, those of Write included.
const maxPosted = 256

// Post is Write for callers that must not wait: Run writes the message. Post returns
// false, without taking the message, if Run is not running, if so many messages wait
// that the peer seems not to read, or after an error.
func (w *Writer) Post(msg []byte) bool {
	w.mu.Lock()
	if !w.runs || w.err != nil || len(w.waiting) >= maxPosted {
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

// Run writes what is posted until stop is closed, and then what is left of it.
// The error is that of the Writer.
func (w *Writer) Run(stop <-chan struct{}) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = true
	for w.runs && w.err == nil {
		w.mu.Unlock()
		stopped := false
		select {
		case <-w.wake:
		case <-stop:
			stopped = true
		}
		w.mu.Lock()
		w.runs = !stopped // what is posted later is not taken
		if w.posted && w.err == nil {
			_ = w.turn() // w.err is looked at
		}
	}
	w.runs = false
	return w.err
}

// lead writes the batch that has gathered. Its caller holds w.mu.
func (w *Writer) lead() {
	w.writing = true
	w.mu.Unlock()
	runtime.Gosched() // who is about to write comes along; when nobody is, this is nothing
	w.mu.Lock()
	batch := w.waiting
	w.waiting, w.posted = w.spare[:0], false
	w.number++
	w.mu.Unlock()
	err := w.flush(batch)
	clear(batch)
	w.mu.Lock()
	w.spare, w.writing, w.done, w.err = batch, false, w.number, err
	w.turns[(w.number-1)%2].Broadcast()
	if err != nil {
		w.turns[w.number%2].Broadcast()
	} else {
		w.turns[w.number%2].Signal() // it leads
	}
}

// flush writes a batch.
func (w *Writer) flush(batch [][]byte) (err error) {
	_, _, w.buf, err = WriteLines(w.w, w.buf, batch)
	return err
}

const (
	// maxGather is how much is gathered for one Write, in bytes.
	maxGather = 64 << 10
	// maxKeep is the size of a buffer that is kept, in bytes: one huge message
	// must not pin its size for ever.
	maxKeep = 1 << 20
)

// WriteLines writes messages with a line ending each, many with one Write. Line
// breaks within them become spaces. After an error, the first whole of them are
// written, and of the first begun at least a byte is. buf is memory to work in,
// as is what is returned for the next time.
func WriteLines(w io.Writer, buf []byte, msgs [][]byte) (whole, begun int, reuse []byte, err error) {
	for from, i := 0, 0; i < len(msgs); i++ {
		if len(msgs[i]) >= maxKeep && isLine(msgs[i]) { // buf is empty: it would have been too much
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
			whole, begun = written(msgs[from:], n)
			return from + whole, from + begun, nil, err
		}
		if buf = buf[:0]; cap(buf) > maxKeep {
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

// written tells how many messages n bytes of their lines hold.
func written(msgs [][]byte, n int) (whole, begun int) {
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
