package upstream

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// errUnsent says that a message was not written because the writer has ended.
var errUnsent = errors.New("not sent")

// outgoing is one message on its way to the server.
type outgoing struct {
	msg []byte
	// sent is told how it went, on the writer's goroutine; may be nil.
	sent func(err error)
}

// writer writes the messages of one connection, one at a time and whole, on
// one goroutine. A server that does not read its input thus blocks that
// goroutine alone: a caller waits only until its message is taken over, and
// can stop waiting. A message once taken over is always written to its end, so
// that the next one begins on its own line.
//
// At most one message of senders is held. Beside it there is a queue for what
// must not wait: notifications/cancelled and answers to the server. It goes
// first, which bounds it: one cancellation for each call that had been taken
// over, none of which are taken over while the queue is not empty, and as many
// answers as Conn.answers has tokens.
type writer struct {
	w     io.WriteCloser
	lines *wire.Writer
	out   chan outgoing
	wake  chan struct{} // holds a token while urgent may have something new
	quit  chan struct{} // closed when nothing more may be taken over
	once  sync.Once
	done  chan struct{} // closed when the writer has ended and w is closed

	mu     sync.Mutex
	urgent []outgoing
	over   bool // urgent takes no more
}

func newWriter(w io.WriteCloser) *writer {
	return &writer{
		w:     w,
		lines: wire.NewWriter(w),
		out:   make(chan outgoing),
		wake:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
	}
}

// send hands m over. It returns the cause of ctx if that ends first, and
// errUnsent if the writer has; m is not written then.
func (w *writer) send(ctx context.Context, m outgoing) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case w.out <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.quit:
		return errUnsent
	case <-w.done:
		return errUnsent
	}
}

// push queues m before everything that is not taken over yet, without waiting.
func (w *writer) push(m outgoing) {
	w.mu.Lock()
	over := w.over
	if !over {
		w.urgent = append(w.urgent, m)
	}
	w.mu.Unlock()
	if over {
		if m.sent != nil {
			m.sent(errUnsent)
		}
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// finish makes the writer end, and close w, when it has written what it holds.
func (w *writer) finish() { w.once.Do(func() { close(w.quit) }) }

// close makes the writer end now, even in the middle of a message.
func (w *writer) close() {
	w.finish()
	w.w.Close()
}

func (w *writer) run() {
	defer close(w.done)
	defer w.w.Close()
	for {
		m, ok := w.next()
		if !ok {
			return
		}
		err := w.lines.Write(m.msg)
		if m.sent != nil {
			m.sent(err)
		}
		if err != nil {
			w.drop(err)
			return
		}
	}
}

// next waits for a message; ok is false when there will be none.
func (w *writer) next() (m outgoing, ok bool) {
	for {
		if m, ok := w.pop(); ok {
			return m, true
		}
		select {
		case m := <-w.out:
			return m, true
		case <-w.wake:
		case <-w.quit:
			return w.last()
		}
	}
}

func (w *writer) pop() (outgoing, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.urgent) == 0 {
		return outgoing{}, false
	}
	m := w.urgent[0]
	w.urgent = w.urgent[1:]
	return m, true
}

// last is pop after quit: an empty queue stays empty.
func (w *writer) last() (outgoing, bool) {
	m, ok := w.pop()
	if !ok {
		w.drop(errUnsent)
	}
	return m, ok
}

// drop gives up what is still queued.
func (w *writer) drop(err error) {
	w.mu.Lock()
	w.over = true
	urgent := w.urgent
	w.urgent = nil
	w.mu.Unlock()
	for _, m := range urgent {
		if m.sent != nil {
			m.sent(err)
		}
	}
}
