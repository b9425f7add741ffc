package front

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Bounds of bodies.
const (
	// earlyBody is the most bytes of a body that comes without a session: an
	// initialize request needs no more.
	earlyBody = 64 << 10
	// bodyGrace is the time that every body has, and bodyRate how many bytes a
	// second it has to bring on average after that.
	bodyGrace = 10 * time.Second
	bodyRate  = 16 << 10
	// roomWait is how long a body waits for others to leave room in the budget.
	roomWait = 10 * time.Second
	// firstPiece is how much memory a body gets before any of it is there, in
	// bytes. It is doubled as they arrive.
	firstPiece = 4 << 10
	// smallBody does not wait for room: it may be an answer or a cancellation,
	// which is what others wait for in order to leave some. Bytes.
	smallBody = 16 << 10
)

// errNoRoom says that others have used up the budget for too long.
var errNoRoom = errors.New("too many bytes of other messages are being worked on (try again later)")

// body is the body of one request as far as it has been read. What memory it has
// is taken from the budget of all messages.
type body struct {
	raw    []byte
	hold   *budget.Hold
	memory *giver

	control *http.ResponseController
	start   time.Time // later by what the client is not to blame for
	due     time.Time // the read deadline that is set
}

// readBody reads the body of r, of limit bytes at most, on the account of an
// owner in the budget. Nothing is read before there is room for it. The caller
// releases the body when nothing is made of it any more.
func (h *HTTP) readBody(w http.ResponseWriter, r *http.Request, owner any, limit int) (*body, *refusal) {
	b := &body{
		hold: h.opts.Session.Budget.Open(owner), memory: h.memory,
		control: http.NewResponseController(w), start: time.Now(),
	}
	if r.ContentLength > int64(limit) {
		return b, h.tooLarge(limit)
	}
	most := limit
	if r.ContentLength >= 0 {
		most = int(r.ContentLength)
	}
	if err := b.fill(r.Context(), http.MaxBytesReader(w, r.Body, int64(limit)), most); err != nil {
		return b, h.unreadable(err, limit)
	}
	_ = b.control.SetReadDeadline(time.Time{})
	return b, nil
}

// fill reads src, which has most bytes at most, to its end.
func (b *body) fill(ctx context.Context, src io.Reader, most int) error {
	for {
		if len(b.raw) == cap(b.raw) {
			// With room for one byte more than there is, the end is found.
			if err := b.grow(ctx, min(max(2*cap(b.raw), firstPiece), most+1)); err != nil {
				return err
			}
		}
		b.extend()
		n, err := src.Read(b.raw[len(b.raw):cap(b.raw)])
		b.raw = b.raw[:len(b.raw)+n]
		if err == io.EOF {
			b.raw = bytes.TrimSpace(b.raw)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow moves the body to a larger piece of memory.
func (b *body) grow(ctx context.Context, size int) error {
	if err := b.room(ctx, size); err != nil {
		return err
	}
	before := cap(b.raw)
	b.raw = append(make([]byte, 0, size), b.raw...)
	b.hold.Release(int64(before))
	b.memory.add(int64(size - before))
	return nil
}

// room waits for room in the budget.
func (b *body) room(ctx context.Context, size int) error {
	if b.hold.TryAcquire(int64(size)) || size <= smallBody {
		return nil
	}
	// What arrives meanwhile stays in the buffers of the connection.
	_ = b.control.SetReadDeadline(time.Time{})
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, roomWait, errNoRoom)
	defer cancel()
	err := b.hold.Acquire(ctx, int64(size))
	b.start, b.due = b.start.Add(time.Since(began)), time.Time{}
	return err
}

// extend moves the read deadline as far as what has arrived allows. Not every
// http.ResponseWriter has one; then the server's own have to do.
func (b *body) extend() {
	due := b.start.Add(bodyGrace + time.Duration(len(b.raw))*time.Second/bodyRate)
	if due.Sub(b.due) >= time.Second {
		b.due = due
		_ = b.control.SetReadDeadline(due)
	}
}

// release says that the body's memory is free.
func (b *body) release() {
	b.hold.Close()
	b.memory.add(-int64(cap(b.raw)))
	b.raw = nil
}

func (h *HTTP) tooLarge(limit int) *refusal {
	text := (&wire.TooLargeError{Limit: limit}).Error()
	if limit < h.opts.Session.MaxMessage {
		text = fmt.Sprintf("without a session, a message has %d bytes at most (begin with initialize, then send Mcp-Session-Id)", limit)
	}
	return &refusal{http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "invalid request: " + text}
}

// unreadable is the answer to a body that could not be read.
func (h *HTTP) unreadable(err error, limit int) *refusal {
	var over *http.MaxBytesError
	var never *budget.TooLargeError
	switch {
	case errors.As(err, &over):
		return h.tooLarge(limit)
	case errors.As(err, &never):
		return &refusal{http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "invalid request: " + err.Error()}
	case errors.Is(err, errNoRoom):
		return &refusal{http.StatusServiceUnavailable, codeRefused, err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{http.StatusRequestTimeout, codeRefused,
			fmt.Sprintf("the body came too slowly (it must bring %d bytes a second after the first %s)", bodyRate, bodyGrace)}
	}
	return &refusal{http.StatusBadRequest, wire.CodeParse, "the request's body could not be read: " + err.Error()}
}
