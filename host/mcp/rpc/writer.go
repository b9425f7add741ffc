package rpc

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// maxHeld bounds the messages of senders queued for writing.
const maxHeld = 64

// Writer is a Stream of newline-delimited messages. One goroutine (Run) writes them, in order and
// whole. A peer that does not read therefore blocks only this goroutine: a sender waits only until
// the message is accepted, and can stop waiting. Messages accepted in the meantime are then written
// together.
//
// A lone message (Frame.alone) is written by the sender if no write is in progress, as far as
// possible without waiting: waking Run would take longer.
//
// At most maxHeld messages of senders are held in addition to the messages being written.
// Cancellations and answers do not wait for room among them. Their number is bounded too: one
// cancellation for each accepted call, and Options.MaxAnswers answers.
type Writer struct {
	w     io.WriteCloser
	slots chan struct{} // a token for each held message of senders
	wake  chan struct{} // holds a token while held may have new messages
	quit  chan struct{} // closed when senders must stop waiting
	once  sync.Once
	done  chan struct{} // closed when the writer has ended and w is closed

	now  *wire.NoWait // of w; used by a sender that writes
	line []byte       // buffer of now

	mu       sync.Mutex
	held     []outgoing
	writing  bool // Run or a sender writes
	rest     rest // of a message begun by the sender
	draining bool // Run waits for a writing sender, and ends afterwards
	over     bool // nothing may be added to held
}

// rest is the unwritten part of a message. Run writes the rest before held messages.
type rest struct {
	Frame
	line []byte // nil if nothing remains
}

// outgoing is a message on its way to the peer.
type outgoing struct {
	Frame
	slot bool // the message has one of Writer.slots
}

// NewWriter makes a Writer that owns w. w.Close must unblock a Write in progress. The owner of the
// Writer calls Run.
func NewWriter(w io.WriteCloser) *Writer {
	return &Writer{
		w:     w,
		slots: make(chan struct{}, maxHeld),
		wake:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
		now:   wire.NewNoWait(w),
	}
}

// TrySend implements Stream. TrySend also returns false after Drain or Close.
func (w *Writer) TrySend(f Frame) bool {
	select {
	case <-w.quit:
		return false
	default:
	}
	if w.writeNow(f) {
		return true
	}
	select {
	case w.slots <- struct{}{}:
	default:
		return false
	}
	return w.holdSlot(f)
}

// Send implements Stream. After Drain or Close, Send returns errUnwritten, which becomes the error
// of the connection for callers.
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

// Push implements Stream; a Writer is never finished.
func (w *Writer) Push(f Frame) error {
	if !w.hold(outgoing{f, false}) {
		f.Done(Unsent, nil)
	}
	return nil
}

// Finish implements Stream: the stream goes on.
func (w *Writer) Finish(f Frame) {
	if f.Data != nil && !w.writeNow(f) {
		_ = w.Push(f)
	}
}

// maxNow is the size of the largest message that a sender writes, in bytes. A pipe takes all of
// this size or nothing.
const maxNow = 4 << 10

// writeNow writes a lone message at once if no write is in progress. It returns false if nothing
// has been written. The unwritten part of a message is left to Run.
func (w *Writer) writeNow(f Frame) bool {
	if !f.alone || w.now == nil || len(f.Data) >= maxNow || !w.claim() {
		return false
	}
	n := 0
	if wire.CheckPermit(f.Permit) == nil { // else Run refuses it
		w.line = wire.AppendLine(w.line[:0], f.Data)
		n = w.now.Write(w.line)
	}
	var left rest
	if 0 < n && n < len(w.line) {
		left = rest{f, bytes.Clone(w.line[n:])}
	}
	w.unclaim(left)
	if n > 0 && left.line == nil {
		f.Done(Written, nil)
	}
	return n > 0
}

// claim begins a write by a sender. claim returns false if other data has to be written first.
func (w *Writer) claim() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing || len(w.held) > 0 || w.rest.line != nil || w.over {
		return false
	}
	w.writing = true
	return true
}

// unclaim ends the write of a sender.
func (w *Writer) unclaim(left rest) {
	w.mu.Lock()
	w.writing, w.rest = false, left
	wake := left.line != nil || len(w.held) > 0 || w.draining
	w.mu.Unlock()
	if wake {
		w.signal()
	}
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // Run is awake already
	}
}

// hold accepts m. hold returns false if the Writer has ended.
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
		w.signal()
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

// Drain ends the Writer, and closes the io.WriteCloser, after all held messages are written.
func (w *Writer) Drain() { w.once.Do(func() { close(w.quit) }) }

// Close ends the Writer at once, even in the middle of a message, and returns nil.
func (w *Writer) Close() error {
	w.Drain()
	w.w.Close()
	return nil
}

// Done returns a channel that is closed when the Writer has ended and the io.WriteCloser is closed.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Run writes messages until Drain, Close, or an error.
func (w *Writer) Run() {
	defer close(w.done)
	defer w.w.Close()
	var batch []outgoing
	var out lines
	for {
		var left rest
		if left, batch = w.take(batch); left.line == nil && len(batch) == 0 {
			return
		}
		err := w.writeRest(left)
		batch = w.dropDenied(batch)
		if err = out.write(w.w, batch, err); err != nil {
			break // without release: nothing may follow a partial message
		}
		w.release()
	}
	for _, m := range w.drop() {
		m.Done(Unsent, nil)
	}
}

// lines is working memory for writing batches.
type lines struct {
	msgs [][]byte
	buf  []byte
}

// write writes a batch and calls Done of the messages. A non-nil err has broken the stream before:
// then nothing is written. write returns err, or the error of the write.
func (l *lines) write(w io.Writer, batch []outgoing, err error) error {
	for _, m := range batch {
		l.msgs = append(l.msgs, m.Data)
	}
	var whole, begun int
	if err == nil && len(batch) > 0 {
		whole, begun, l.buf, err = wire.WriteLines(w, l.buf, l.msgs)
	}
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
	clear(l.msgs)
	l.msgs = l.msgs[:0]
	return err
}

// release ends a write of Run; senders may write again.
func (w *Writer) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = false
}

// writeRest writes the rest of a message begun by the sender.
func (w *Writer) writeRest(r rest) error {
	if r.line == nil {
		return nil
	}
	if _, err := w.w.Write(r.line); err != nil {
		r.Done(Broken, nil)
		return err
	}
	r.Done(Written, nil)
	return nil
}

// dropDenied removes the messages from a batch that may no longer be written.
func (w *Writer) dropDenied(batch []outgoing) []outgoing {
	return slices.DeleteFunc(batch, func(m outgoing) bool {
		denied := wire.CheckPermit(m.Permit)
		if denied != nil {
			m.Done(Unsent, denied)
		}
		return denied != nil
	})
}

// take waits for messages and returns all held messages, after the rest of a message begun by the
// sender. It returns nothing if no more messages will come. take reuses the memory of the previous
// batch. Until release, no sender writes.
func (w *Writer) take(before []outgoing) (begun rest, batch []outgoing) {
	clear(before)
	w.mu.Lock()
	for quit := w.quit; ; w.mu.Lock() {
		switch {
		case w.writing: // a sender, which wakes us
			w.draining = quit == nil
		case w.rest.line != nil || len(w.held) > 0:
			begun, batch = w.rest, w.held
			w.writing, w.rest, w.held = true, rest{}, before[:0]
			w.mu.Unlock()
			for _, m := range batch {
				if m.slot {
					<-w.slots
				}
			}
			return begun, batch
		case quit == nil: // nothing may be added
			w.over = true
			w.mu.Unlock()
			return rest{}, nil
		}
		w.mu.Unlock()
		select {
		case <-w.wake:
			runtime.Gosched() // calls in the making are then written together
		case <-quit:
			quit = nil
		}
	}
}

// drop returns the held messages, which will not be written.
func (w *Writer) drop() []outgoing {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	held := w.held
	w.held = nil
	return held
}
