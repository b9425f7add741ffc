package upstream

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// errUnsent says that a message was not written because the writer has ended.
var errUnsent = errors.New("not sent")

// maxHeld bounds the messages of senders that wait to be written.
const maxHeld = 64

// outgoing is one message on its way to the server.
type outgoing struct {
	msg    []byte
	call   int64 // id of a request; 0 for what is none
	answer bool  // to a request of the server
	slot   bool  // it has one of writer.slots
	permit wire.Permit
	denied error // what permit has said to that
}

// writer writes the messages of one connection, in order and whole, on one
// goroutine. A server that does not read its input thus blocks that goroutine
// alone: a caller waits only until its message is taken over, and can stop
// waiting. What was taken over meanwhile is then written at once.
//
// At most maxHeld messages of senders are held beside those being written.
// Notifications/cancelled and answers to the server do not wait for a place
// among them. That is bounded too: there is one cancellation for each call that
// was taken over, and as many answers as Conn.answers has tokens.
type writer struct {
	w    io.WriteCloser
	sent func(m outgoing, o fate) // on the writer's goroutine, or that of push
	// slots has a token for each message of senders that is held.
	slots chan struct{}
	wake  chan struct{} // holds a token while held may have something new
	quit  chan struct{} // closed when nothing more may be taken over
	once  sync.Once
	done  chan struct{} // closed when the writer has ended and w is closed

	mu   sync.Mutex
	held []outgoing
	over bool // held takes no more
}

// fate is what has become of a message.
type fate int

const (
	written fate = iota
	broken       // the writer has ended within it
	unbegun      // the writer had ended before it
	denied       // its permit did not allow it
)

func newWriter(w io.WriteCloser, sent func(outgoing, fate)) *writer {
	return &writer{
		w:     w,
		sent:  sent,
		slots: make(chan struct{}, maxHeld),
		wake:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
	}
}

// send hands m over. It returns the cause of ctx if that ends first, the
// error of l if that does, which may be nil, and errUnsent if the writer has; m is not written then, and sent not told of it.
func (w *writer) send(ctx context.Context, m outgoing, l *limit, expiring <-chan time.Time) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.trySend(m) {
		return nil
	}
	if err := w.wait(ctx, l, expiring); err != nil {
		return err
	}
	m.slot = true
	if !w.hold(m) {
		<-w.slots
		return errUnsent
	}
	return nil
}

// trySend is send where that need not wait; false where it would have to, or the
// writer has ended.
func (w *writer) trySend(m outgoing) bool {
	select {
	case <-w.quit:
		return false
	default:
	}
	select {
	case w.slots <- struct{}{}:
	default:
		return false
	}
	m.slot = true
	if !w.hold(m) {
		<-w.slots
		return false
	}
	return true
}

// wait waits for a slot.
func (w *writer) wait(ctx context.Context, l *limit, expiring <-chan time.Time) error {
	select {
	case <-w.quit:
		return errUnsent
	default:
	}
	for {
		select {
		case w.slots <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.quit:
			return errUnsent
		case <-w.done:
			return errUnsent
		case <-expiring:
			if err := l.expired(); err != nil {
				return err
			}
		}
	}
}

// push hands m over without waiting.
func (w *writer) push(m outgoing) {
	if !w.hold(m) {
		w.sent(m, unbegun)
	}
}

// hold takes m over; false when it is too late.
func (w *writer) hold(m outgoing) bool {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return false
	}
	w.held = append(w.held, m)
	first := len(w.held) == 1
	w.mu.Unlock()
	if first {
		select {
		case w.wake <- struct{}{}:
		default: // it is awake already
		}
	}
	return true
}

// withdraw takes a request back. It is false when it may have been written.
func (w *writer) withdraw(call int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.held, func(m outgoing) bool { return m.call == call })
	if i < 0 {
		return false
	}
	w.held = slices.Delete(w.held, i, i+1)
	<-w.slots
	return true
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
	var batch []outgoing
	var msgs [][]byte
	var buf []byte
	for err := error(nil); err == nil; {
		if batch = w.take(batch); len(batch) == 0 {
			return
		}
		if batch = w.leave(batch); len(batch) == 0 {
			continue
		}
		for _, m := range batch {
			msgs = append(msgs, m.msg)
		}
		var whole, begun int
		whole, begun, buf, err = wire.WriteLines(w.w, buf, msgs)
		for i, m := range batch {
			switch {
			case i < whole:
				w.sent(m, written)
			case i < begun:
				w.sent(m, broken)
			default:
				w.sent(m, unbegun)
			}
		}
		clear(msgs)
		msgs = msgs[:0]
	}
	for _, m := range w.drop() {
		w.sent(m, unbegun)
	}
}

// leave takes those out of a batch that may not be written any more.
func (w *writer) leave(batch []outgoing) []outgoing {
	return slices.DeleteFunc(batch, func(m outgoing) bool {
		if m.denied = wire.Ask(m.permit); m.denied != nil {
			w.sent(m, denied)
		}
		return m.denied != nil
	})
}

// take waits for messages and takes all that are held; none when there will be
// none. It keeps the memory of the batch before.
func (w *writer) take(before []outgoing) []outgoing {
	clear(before)
	for quit := w.quit; ; {
		w.mu.Lock()
		if batch := w.held; len(batch) > 0 {
			w.held = before[:0]
			w.mu.Unlock()
			for _, m := range batch {
				if m.slot {
					<-w.slots
				}
			}
			return batch
		}
		if quit == nil { // nothing is held, and nothing may be
			w.over = true
			w.mu.Unlock()
			return nil
		}
		w.mu.Unlock()
		select {
		case <-w.wake:
			runtime.Gosched() // calls that are about to be made come along
		case <-quit:
			quit = nil
		}
	}
}

// drop takes what is held and will not be written.
func (w *writer) drop() []outgoing {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	held := w.held
	w.held = nil
	return held
}
