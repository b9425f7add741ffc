package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
)

// Room is where large messages are counted that are read from a stream. A nil
// Room has no end.
type Room struct {
	// Context ends the waiting.
	Context context.Context
	// Open makes the Hold of one message.
	Open func() *budget.Hold
}

// message begins a message of at most max bytes.
func (r *Room) message(max int) *growing { return &growing{room: r, max: max} }

// ReadAll reads a message of size bytes, or of unknown size if that is negative,
// and of at most max bytes. With a *TooLargeError come the first excerpt bytes.
func (r *Room) ReadAll(src io.Reader, size int64, max, excerpt int) ([]byte, error) {
	g := r.message(max)
	first := firstPiece
	if size >= 0 {
		first = int(min(size, int64(max))) + 1 // with one more the end is found
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
			return bytes.Clone(head), &TooLargeError{Limit: max}
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

// firstPiece is the memory that a message of unknown size begins with, in bytes.
const firstPiece = 4 << 10

// growing is a message while it is read. What it needs is taken from the budget
// before it is allocated, and given back when nobody has the message any more.
type growing struct {
	room *Room
	hold *budget.Hold // nil: none yet
	max  int
	b    []byte
}

// add takes a part of the message. After an error, a *TooLargeError or the cause of
// the context, the message is given up.
func (g *growing) add(part []byte) error {
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

// grow makes room for need bytes at least. After an error the message is given up.
func (g *growing) grow(need int) error {
	size := max(min(2*cap(g.b), g.max+len("\r\n")), need)
	if g.room != nil && size > smallMessage {
		if g.hold == nil {
			g.hold = g.room.Open()
		}
		if err := g.hold.Fit(g.room.Context, size); err != nil {
			g.drop()
			return roomError(err)
		}
	}
	g.b = append(make([]byte, 0, size), g.b...)
	return nil
}

// done is the message, which is the caller's.
func (g *growing) done() []byte {
	if g.hold != nil {
		if cap(g.b) > len(g.b)+len(g.b)/4 { // else it would hold up to twice its size for long
			g.b = append(make([]byte, 0, len(g.b)), g.b...)
			_ = g.hold.Fit(g.room.Context, len(g.b)) // less than before: without waiting
		}
		g.hold.Attach(g.b[:1])
	}
	return g.b
}

func (g *growing) drop() {
	if g.hold != nil {
		g.hold.Close()
	}
	g.b = nil
}

// roomError is what the reader of a message is told that there is no room for.
func roomError(err error) error {
	var large *budget.TooLargeError
	if !errors.As(err, &large) {
		return err
	}
	return &TooLargeError{Limit: int(min(large.Most/budget.Copies, math.MaxInt)), Budget: true}
}
