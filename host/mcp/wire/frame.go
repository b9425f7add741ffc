package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

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
