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

// maxHeld bounds the messages of senders that are queued for writing.
const maxHeld = 64

// Writer is a Stream of newline-delimited messages. It writes them on one goroutine
// (Run), in order and whole. A peer that does not read therefore blocks only that
// goroutine: a sender waits only until its message is accepted, and can stop
// waiting. Messages that were accepted in the meantime are then written together.
//
// A message that is alone (Frame.alone) while nothing is being written is written by
// its sender, as far as that needs no waiting: waking Run would take longer.
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

	now  *wire.NoWait // of w; used by the sender that writes by itself
	line []byte       // its buffer

	mu       sync.Mutex
	held     []outgoing
	writing  bool // Run or a sender writes
	rest     rest // of a message that its sender has begun to write
	draining bool // Run waits for a sender that writes, to end after it
	over     bool // nothing may be added to held
}

// rest is what remains of a message. Run writes it before what is held.
type rest struct {
	Frame
	line []byte // nil if nothing remains
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
		now:   wire.NewNoWait(w),
	}
}

// TrySend implements Stream. It also returns false after Drain or Close.
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
	if f.Data != nil && !w.writeNow(f) {
		_ = w.Push(f)
	}
}

// maxNow is the size of the largest message that its sender writes, in bytes. A pipe
// takes all of such a message or nothing.
const maxNow = 4 << 10

// writeNow writes a message at once if it is alone and nothing is being written. It
// returns false if nothing has been written. What remains of a message is left to Run.
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

// claim begins a write by a sender. It returns false if something else has to be written
// first.
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
	default: // it is awake already
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
	var out lines
	for {
		var left rest
		if left, batch = w.take(batch); left.line == nil && len(batch) == 0 {
			return
		}
		err := w.writeRest(left)
		batch = w.dropDenied(batch)
		if err = out.write(w.w, batch, err); err != nil {
			break // without release: nothing may follow a message that is not whole
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

// write writes a batch and says so to its messages, unless err, which it returns, has
// broken the stream before.
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

// release ends a write of Run, so that senders may write.
func (w *Writer) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = false
}

// writeRest writes the rest of a message that its sender has begun to write.
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

// take waits for messages and returns all that are held, after what is left of one that
// its sender has begun to write. It returns nothing if no more will come. It reuses the
// memory of the previous batch. Until release, no sender writes.
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
