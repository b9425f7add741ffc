package rpc

import (
	"context"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// maxHeld bounds the messages of senders that are queued for writing.
const maxHeld = 64

// Writer is a Stream of newline-delimited messages. It writes them on one goroutine
// (Run), in order and whole. A peer that does not read therefore blocks only that
// goroutine: a sender waits only until its message is accepted, and can stop
// waiting. Messages that were accepted in the meantime are then written together.
//
// At most maxHeld messages of senders are held in addition to those being written.
// Cancellations and answers do not wait for room among them. Their number is
// bounded too: there is one cancellation for each call that was accepted, and as
// many answers as Options.MaxAnswers allows.
type Writer struct {
	w     io.WriteCloser
	slots chan struct{} // a token for each message of senders that is held
	wake  chan struct{} // holds a token while held may have new messages
	quit  chan struct{} // closed when no sender may wait any more
	once  sync.Once
	done  chan struct{} // closed when the writer has ended and w is closed

	mu   sync.Mutex
	held []outgoing
	over bool // nothing may be added to held
}

// outgoing is one message on its way to the peer.
type outgoing struct {
	Frame
	slot bool // it has one of Writer.slots
}

// NewWriter makes a Writer that owns w, whose Close must unblock a Write in
// progress. Its owner calls Run.
func NewWriter(w io.WriteCloser) *Writer {
	return &Writer{
		w:     w,
		slots: make(chan struct{}, maxHeld),
		wake:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
	}
}

// TrySend implements Stream. It also returns false after Drain or Close.
func (w *Writer) TrySend(f Frame) bool {
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
	return w.holdSlot(f)
}

// Send implements Stream. After Drain or Close it returns errUnwritten, for which
// callers get the error that the connection ended with.
func (w *Writer) Send(ctx context.Context, f Frame) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-w.quit:
		return errUnwritten
	default:
	}
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.quit:
		return errUnwritten
	case <-w.done:
		return errUnwritten
	}
	if !w.holdSlot(f) {
		return errUnwritten
	}
	return nil
}

func (w *Writer) holdSlot(f Frame) bool {
	if w.hold(outgoing{f, true}) {
		return true
	}
	<-w.slots
	return false
}

// Push implements Stream; it is never finished.
func (w *Writer) Push(f Frame) error {
	if !w.hold(outgoing{f, false}) {
		f.Done(Unsent, nil)
	}
	return nil
}

// Finish implements Stream: the stream goes on.
func (w *Writer) Finish(f Frame) {
	if f.Data != nil {
		_ = w.Push(f)
	}
}

// hold accepts m. It returns false if the Writer has ended.
func (w *Writer) hold(m outgoing) bool {
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

// Withdraw implements Stream.
func (w *Writer) Withdraw(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.held, func(m outgoing) bool { return m.ID == id })
	if i < 0 {
		return false
	}
	w.held = slices.Delete(w.held, i, i+1)
	<-w.slots
	return true
}

// Drain makes the Writer end, and close its io.WriteCloser, when it has written what
// it holds.
func (w *Writer) Drain() { w.once.Do(func() { close(w.quit) }) }

// Close makes the Writer end at once, even in the middle of a message. It returns
// nil.
func (w *Writer) Close() error {
	w.Drain()
	w.w.Close()
	return nil
}

// Done returns a channel that is closed when the Writer has ended and its
// io.WriteCloser is closed.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Run writes messages until Drain, Close, or an error.
func (w *Writer) Run() {
	defer close(w.done)
	defer w.w.Close()
	var batch []outgoing
	var msgs [][]byte
	var buf []byte
	for err := error(nil); err == nil; {
		if batch = w.take(batch); len(batch) == 0 {
			return
		}
		if batch = w.dropDenied(batch); len(batch) == 0 {
			continue
		}
		for _, m := range batch {
			msgs = append(msgs, m.Data)
		}
		var whole, begun int
		whole, begun, buf, err = wire.WriteLines(w.w, buf, msgs)
		for i, m := range batch {
			switch {
			case i < whole:
				m.Done(Written, nil)
			case i < begun:
				m.Done(Broken, nil)
			default:
				m.Done(Unsent, nil)
			}
		}
		clear(msgs)
		msgs = msgs[:0]
	}
	for _, m := range w.drop() {
		m.Done(Unsent, nil)
	}
}

// dropDenied removes the messages from a batch that may not be written any more.
func (w *Writer) dropDenied(batch []outgoing) []outgoing {
	return slices.DeleteFunc(batch, func(m outgoing) bool {
		denied := wire.CheckPermit(m.Permit)
		if denied != nil {
			m.Done(Unsent, denied)
		}
		return denied != nil
	})
}

// take waits for messages and returns all that are held, or none if no more will
// come. It reuses the memory of the previous batch.
func (w *Writer) take(before []outgoing) []outgoing {
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
		if quit == nil { // nothing is held, and nothing may be added
			w.over = true
			w.mu.Unlock()
			return nil
		}
		w.mu.Unlock()
		select {
		case <-w.wake:
			runtime.Gosched() // so that calls that are just being made are written together
		case <-quit:
			quit = nil
		}
	}
}

// drop returns what is held and will not be written.
func (w *Writer) drop() []outgoing {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	held := w.held
	w.held = nil
	return held
}
