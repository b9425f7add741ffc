package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// DefaultMaxMessage is the default cap on an incoming message, in bytes.
const DefaultMaxMessage = 64 << 20

// TooLargeError means that an incoming message was longer than the limit. The message was skipped;
// reading can continue.
type TooLargeError struct {
	Limit int // bytes
	// Budget is set if the limit follows from the budget of all messages rather than from the limit
	// for one message.
	Budget bool
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message is larger than %d bytes", e.Limit)
}

// LimitName returns the name of the exceeded limit. Package limits describes the limit and the
// remedy.
func (e *TooLargeError) LimitName() string {
	if e.Budget {
		return "total_memory"
	}
	return "message"
}

// Reader reads newline-delimited messages (MCP stdio transport, revision 2025-11-25,
// basic/transports). A Reader must not be used concurrently.
type Reader struct {
	r      *bufio.Reader
	max    int
	budget *ReadBudget
	// ofBudget is set if max follows from budget.
	ofBudget bool
	ended    bool // the last message had no newline
}

// Ended reports whether the stream has ended behind the last message, without a newline.
func (r *Reader) Ended() bool { return r.ended }

// smallMessage is the size in bytes of the largest message that does not wait for memory. It is
// also the size of the read buffer.
const smallMessage = budget.Small

// NewReader returns a Reader for messages of at most max bytes (0:
// DefaultMaxMessage).
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMaxMessage
	}
	return &Reader{r: bufio.NewReaderSize(r, smallMessage), max: max}
}

// WithBudget makes the Reader reserve memory in b before the read of a large message.
func (r *Reader) WithBudget(b *ReadBudget) *Reader {
	r.budget = b
	r.max, r.ofBudget = b.Limit(r.max)
	return r
}

// Read returns the next message without its line ending. The caller owns it. Read skips blank
// lines. After a *TooLargeError the next Read continues after the large message. A last line
// without a newline is a message too; the next Read returns io.EOF.
func (r *Reader) Read() ([]byte, error) {
	for {
		line, err := r.line()
		r.ended = err != nil
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

// reject skips the rest of a message that failed with bad. err is the error of the last read.
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

// skip skips the rest of a line. err is the error of the last read.
func (r *Reader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return &TooLargeError{Limit: r.max, Budget: r.ofBudget}
}

const (
	// maxGather is the number of bytes gathered for one Write.
	maxGather = 64 << 10
	// maxReused is the size in bytes of the largest buffer that is reused; a huge message must not
	// pin memory.
	maxReused = 1 << 20
)

// WriteLines writes messages, each with a newline, many with one Write. Line breaks within messages
// become spaces. After an error, whole is the number of completely written messages, begun the
// number of messages that were written at least in part. buf is working memory; reuse can be passed
// as buf the next time.
func WriteLines(w io.Writer, buf []byte, msgs [][]byte) (whole, begun int, reuse []byte, err error) {
	for from, i := 0, 0; i < len(msgs); i++ {
		if len(msgs[i]) >= maxReused && isLine(msgs[i]) { // buf is empty, since the message did not fit
			if n, err := writeLine(w, msgs[i]); err != nil {
				return i, i + min(n, 1), nil, err
			}
			from = i + 1
			continue
		}
		buf = AppendLine(buf, msgs[i])
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

// isLine reports whether a message has no line breaks and can be written unchanged.
func isLine(msg []byte) bool { return bytes.IndexByte(msg, '\n') < 0 && bytes.IndexByte(msg, '\r') < 0 }

// writeLine writes a message without a copy. n is the number of bytes written.
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

// AppendLine appends a message and a newline. Line breaks within the message become
// spaces.
func AppendLine(b, msg []byte) []byte {
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

// ReadBudget reserves memory for large messages before they are read from a stream. A nil
// ReadBudget is unlimited.
type ReadBudget struct {
	// Context ends waiting for memory.
	Context context.Context
	// Open returns a new Hold for one message.
	Open func() *budget.Hold
	// Most is the size of the largest message with room, in bytes; 0: any.
	Most int
}

// Limit returns the size limit of a message in bytes, given the configured limit max. ofBudget
// reports whether the limit follows from the budget.
func (r *ReadBudget) Limit(max int) (limit int, ofBudget bool) {
	if r != nil && r.Most > 0 && r.Most < max {
		return r.Most, true
	}
	return max, false
}

// message returns a buffer for a message of at most max bytes.
func (r *ReadBudget) message(max int) *messageBuffer { return &messageBuffer{budget: r, max: max} }

// ReadAll reads a message of size bytes, or of unknown size if size is negative, but at most max
// bytes. With a *TooLargeError it returns the first excerpt bytes.
func (r *ReadBudget) ReadAll(src io.Reader, size int64, max, excerpt int) ([]byte, error) {
	max, ofBudget := r.Limit(max)
	g := r.message(max)
	first := initialSize
	if size >= 0 {
		first = int(min(size, int64(max))) + 1 // one byte more, to find the end
	}
	if err := g.grow(first); err != nil {
		return nil, err
	}
	for {
		n, err := src.Read(g.b[len(g.b):cap(g.b)])
		g.b = g.b[:len(g.b)+n]
		head := g.b[:min(len(g.b), excerpt)]
		switch {
		case len(g.b) > max:
			g.drop()
			return bytes.Clone(head), &TooLargeError{Limit: max, Budget: ofBudget}
		case err == io.EOF && int64(len(g.b)) >= size:
			return g.done(), nil
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		case err == nil && len(g.b) == cap(g.b):
			if err := g.grow(cap(g.b) + 1); err != nil {
				return bytes.Clone(head), err
			}
		}
		if err != nil {
			g.drop()
			return nil, err
		}
	}
}

// initialSize is the initial buffer size for a message of unknown size, in bytes.
const initialSize = 4 << 10

// messageBuffer holds a message during the read. It takes memory from the budget before allocating
// it. The memory is returned when the message is garbage collected.
type messageBuffer struct {
	budget *ReadBudget
	hold   *budget.Hold // nil: none yet
	max    int
	b      []byte
}

// add appends a part of the message. After an error, which is a *TooLargeError or the
// cause of the context, the message is dropped.
func (g *messageBuffer) add(part []byte) error {
	need := len(g.b) + len(part)
	if need > g.max+len("\r\n") {
		g.drop()
		return &TooLargeError{Limit: g.max}
	}
	if need > cap(g.b) {
		if err := g.grow(need); err != nil {
			return err
		}
	}
	g.b = append(g.b, part...)
	return nil
}

// grow increases the capacity to at least need bytes. After an error the message is
// dropped.
func (g *messageBuffer) grow(need int) error {
	size := max(min(2*cap(g.b), g.max+len("\r\n")), need)
	if g.budget != nil && size > smallMessage {
		if g.hold == nil {
			g.hold = g.budget.Open()
		}
		if err := g.hold.Fit(g.budget.Context, size); err != nil {
			g.drop()
			return budgetError(err)
		}
	}
	g.b = append(make([]byte, 0, size), g.b...)
	return nil
}

// done returns the message, which the caller then owns.
func (g *messageBuffer) done() []byte {
	if g.hold != nil {
		if cap(g.b) > len(g.b)+len(g.b)/4 { // otherwise the buffer would hold up to twice the size of the message
			g.b = append(make([]byte, 0, len(g.b)), g.b...)
			_ = g.hold.Fit(g.budget.Context, len(g.b)) // does not wait, since the new size is smaller
		}
		g.hold.Attach(g.b[:1])
	}
	return g.b
}

func (g *messageBuffer) drop() {
	if g.hold != nil {
		g.hold.Close()
	}
	g.b = nil
}

// budgetError turns an error of the budget into the error for the reader of a message.
func budgetError(err error) error {
	var large *budget.TooLargeError
	if !errors.As(err, &large) {
		return err
	}
	return &TooLargeError{Limit: int(min(large.Most/budget.Copies, math.MaxInt)), Budget: true}
}
