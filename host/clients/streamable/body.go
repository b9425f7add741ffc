package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Bounds of bodies.
const (
	// maxInitialize is the size of the largest body without a session, in bytes. Only initialize
	// comes without a session, and initialize needs no more.
	maxInitialize = 64 << 10
	// bodyGrace is the time that every body may take. Afterwards at least bodyRate bytes a second
	// must arrive on average.
	bodyGrace = 10 * time.Second
	bodyRate  = 16 << 10
	// budgetWait is how long a body waits for room in the budget.
	budgetWait = 10 * time.Second
	// firstBuffer is the size of the first buffer for a body, in bytes. The buffer doubles as the
	// body arrives.
	firstBuffer = 4 << 10
	// smallBody is the size up to which a body does not wait for room, in bytes. A small body may
	// be the answer or the cancellation that makes room.
	smallBody = 16 << 10
)

// errNoRoom is the error for a body that waited too long for the used-up budget.
var errNoRoom = errors.New("too many bytes of other messages are being worked on (try again later)")

// body is the read part of a request's body. The memory is taken from the budget for all messages.
type body struct {
	raw    []byte
	hold   *budget.Hold
	memory *memoryReturner

	control  *http.ResponseController
	start    time.Time // plus the time for which the body waited for the budget
	deadline time.Time // the current deadline of reads
}

// readBody reads the body of r, of at most limit bytes, and charges the body to an owner in the
// budget. readBody waits for room before reading. The caller must release the body after use, also
// after a refusal.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, owner any, limit int) (*body, *refusal) {
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

// fill reads src, which has at most most bytes, to the end.
func (b *body) fill(ctx context.Context, src io.Reader, most int) error {
	for {
		if len(b.raw) == cap(b.raw) {
			// A read needs room for another byte to find the end.
			if err := b.grow(ctx, min(max(2*cap(b.raw), firstBuffer), most+1)); err != nil {
				return err
			}
		}
		b.extend()
		n, err := src.Read(b.raw[len(b.raw):cap(b.raw)])
		b.raw = b.raw[:len(b.raw)+n]
		if err == io.EOF {
			b.raw = bytes.TrimSpace(b.raw)
			if cap(b.raw) <= budget.Small {
				return nil
			}
			return b.reserve(ctx, (budget.Copies-1)*cap(b.raw)) // for the forwarded form
		}
		if err != nil {
			return err
		}
	}
}

// grow moves the body to a larger buffer.
func (b *body) grow(ctx context.Context, size int) error {
	if err := b.reserve(ctx, size); err != nil {
		return err
	}
	before := cap(b.raw)
	b.raw = append(make([]byte, 0, size), b.raw...)
	b.hold.Release(int64(before))
	b.memory.add(int64(size - before))
	return nil
}

// reserve waits for room in the budget.
func (b *body) reserve(ctx context.Context, size int) error {
	if b.hold.TryAcquire(int64(size)) || size <= smallBody {
		return nil
	}
	// The client may block meanwhile, since the body is not read.
	_ = b.control.SetReadDeadline(time.Time{})
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, budgetWait, errNoRoom)
	defer cancel()
	err := b.hold.Acquire(ctx, int64(size))
	b.start, b.deadline = b.start.Add(time.Since(began)), time.Time{}
	return err
}

// extend moves the read deadline as far as the arrived bytes allow. If the http.ResponseWriter has
// no deadlines, the server's deadlines apply.
func (b *body) extend() {
	deadline := b.start.Add(bodyGrace + time.Duration(len(b.raw))*time.Second/bodyRate)
	if deadline.Sub(b.deadline) >= time.Second {
		b.deadline = deadline
		_ = b.control.SetReadDeadline(deadline)
	}
}

// release gives the memory of the body back to the budget.
func (b *body) release() {
	b.hold.Close()
	b.memory.add(-int64(cap(b.raw)))
	b.raw = nil
}

func (h *Handler) tooLarge(limit int) *refusal {
	text := limits.Explain(&wire.TooLargeError{Limit: limit})
	if limit < h.opts.Session.MaxMessage {
		text = fmt.Sprintf("without a session, a message may have at most %d bytes (begin with initialize, then send Mcp-Session-Id)", limit)
	}
	return &refusal{http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "invalid request: " + text}
}

// unreadable returns the refusal of an unreadable body.
func (h *Handler) unreadable(err error, limit int) *refusal {
	var over *http.MaxBytesError
	var beyond *budget.TooLargeError
	switch {
	case errors.As(err, &over):
		return h.tooLarge(limit)
	case errors.As(err, &beyond):
		return &refusal{http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "invalid request: " + limits.Explain(err)}
	case errors.Is(err, errNoRoom):
		return &refusal{http.StatusServiceUnavailable, protocol.CodeHTTPRefused, err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{http.StatusRequestTimeout, protocol.CodeHTTPRefused,
			fmt.Sprintf("the body arrived too slowly (after the first %s, send at least %d bytes a second)", bodyGrace, bodyRate)}
	}
	return &refusal{http.StatusBadRequest, wire.CodeParse, "the request's body could not be read: " + err.Error()}
}

// The runtime keeps the memory of large bodies for minutes after their release, and longer before a
// garbage collection. A memoryReturner therefore returns memory to the system after each burst of
// large bodies.
const (
	// burst is how many bytes of bodies at a time count as a burst.
	burst = 64 << 20
	// returnDelay is the time from the end of a burst until memory is returned.
	returnDelay = 5 * time.Second
)

// memoryReturner returns memory to the system after bursts of large bodies.
type memoryReturner struct {
	free  func()
	ended chan struct{} // holds a token when most bodies of a burst have been released

	mu   sync.Mutex // a leaf
	held int64      // bytes of all bodies
	peak int64      // the highest held since free was called
}

func newMemoryReturner(free func()) *memoryReturner {
	return &memoryReturner{free: free, ended: make(chan struct{}, 1)}
}

// add counts n allocated bytes of bodies, or released bytes if n is negative.
func (m *memoryReturner) add(n int64) {
	m.mu.Lock()
	m.held += n
	m.peak = max(m.peak, m.held)
	ended := n < 0 && m.peak >= burst && m.held <= m.peak/8
	m.mu.Unlock()
	if !ended {
		return
	}
	select {
	case m.ended <- struct{}{}:
	default:
	}
}

// run returns memory after each burst until ctx ends.
func (m *memoryReturner) run(ctx context.Context) {
	for {
		select {
		case <-m.ended:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(returnDelay)
		for waiting := true; waiting; {
			select {
			case <-m.ended: // more bodies have been released
				timer.Reset(returnDelay)
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		m.mu.Lock()
		over := m.held <= m.peak/8 // otherwise another burst is in progress, which will end too
		if over {
			m.peak = m.held
		}
		m.mu.Unlock()
		if over {
			m.free()
		}
	}
}
