package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

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
