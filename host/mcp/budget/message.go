package budget

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// Small is the size in bytes up to which messages are not counted.
const Small = 64 << 10

// Copies is the number of bytes counted for each byte of a message: one for the message and one for
// the forwarded form.
const Copies = 2

const (
	// escalateAfter is how long messages wait before a message may exceed the budget, or, if a
	// message already exceeds the budget, before a run fails in favour of an answer.
	escalateAfter = time.Second
	// firstPause is how long a waiter waits before a run of the garbage collector to free messages.
	// Later pauses are longer.
	firstPause = 10 * time.Millisecond
)

// kind is the kind of message of a Hold.
type kind int

const (
	body    kind = iota // grows during reading, on a connection of its own
	request             // in a stream with other messages
	answer              // other work needs the answer to finish
	unread              // by the receiving client
	session
	kept // for a client beyond the client's request
	list // of a server
	savedTool
	kinds
)

// OpenRequest returns a Hold for a message of a client in a stream. One request at a time may
// exceed the budget after a long wait, because messages awaited by other requests can follow in the
// stream.
func (b *Budget) OpenRequest(key any) *Hold {
	h := &Hold{kind: request}
	b.open(h, key)
	return h
}

// OpenAnswer returns a Hold for a message of a server, which is the owner. An answer can use all
// the bytes for messages, regardless of the session, and one answer at a time may exceed the
// budget. If the excess does not help, because the messages belong to waiting runs, the youngest
// run with answers fails.
func (b *Budget) OpenAnswer(key any) *Hold {
	h := &Hold{kind: answer}
	b.open(h, key)
	return h
}

// Fit acquires or releases bytes: the Hold then has enough for a message of size bytes in flight;
// see Acquire.
func (h *Hold) Fit(ctx context.Context, size int) error {
	want := int64(size) * Copies
	if had := h.Bytes(); want < had {
		h.Release(had - want)
		return nil
	} else {
		return h.Acquire(ctx, want-had)
	}
}

// Attach closes the Hold when the garbage collector has freed the message starting with the first
// byte of b. b must be a whole allocation. While requests wait for bytes, the collector runs often.
func (h *Hold) Attach(b []byte) {
	if h.budget == nil || len(b) == 0 {
		h.Close()
		return
	}
	h.budget.mu.Lock()
	h.attached = true
	h.budget.attached++
	h.budget.kickWaiting()
	h.budget.countBurst(h.bytes)
	h.budget.mu.Unlock()
	runtime.AddCleanup(&b[0], (*Hold).Close, h)
}

// kickWaiting wakes a waiter to run the garbage collector.
func (b *Budget) kickWaiting() {
	if b.attached > 0 && b.waiting > 0 {
		select {
		case b.kick <- struct{}{}:
		default:
		}
	}
}

// await waits until w is served or has failed, or ctx ends.
func (h *Hold) await(ctx context.Context, w *waiter) error {
	b, began, pause := h.budget, time.Now(), firstPause
	kick := b.kick
	if h.run != nil { // collecting garbage frees no bytes for runs
		kick = nil
	}
	for {
		var timer *time.Timer
		var tick <-chan time.Time
		if h.run == nil {
			timer = time.NewTimer(pause)
			tick = timer.C
		}
		ended := false
		select {
		case <-w.ready:
			ended = true
		case <-ctx.Done():
			ended = true
		case <-kick:
		case <-tick:
			b.collect()
			if time.Since(began) >= escalateAfter {
				b.escalate(w)
			}
			pause = min(2*pause, escalateAfter/2)
		}
		if timer != nil {
			timer.Stop()
		}
		if ended {
			return b.finishWait(ctx, w)
		}
	}
}

// finishWait ends the wait of w, after w was served or ctx has ended.
func (b *Budget) finishWait(ctx context.Context, w *waiter) error {
	b.mu.Lock()
	defer b.unlock()
	select {
	case <-w.ready: // perhaps at the same time as ctx
		return w.err
	default:
	}
	b.dequeue(w)
	b.serve() // waiters behind w may fit
	return context.Cause(ctx)
}

func (b *Budget) hasAttached() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attached > 0
}

// collect frees unreferenced messages. Only one goroutine at a time collects.
func (b *Budget) collect() {
	if !b.hasAttached() || !b.collecting.TryLock() {
		return
	}
	defer b.collecting.Unlock()
	runtime.GC()
}

// escalate lets a message exceed the budget after a long wait, or makes a run fail in favour of an
// answer.
func (b *Budget) escalate(w *waiter) {
	b.mu.Lock()
	defer b.unlock()
	select {
	case <-w.ready:
		return
	default:
	}
	if b.overBudget[w.hold.kind] == nil {
		w = b.mostModest(w)
		b.overBudget[w.hold.kind] = w.hold
		b.grant(w)
		return
	}
	if w.hold.kind != answer || b.failing > 0 || time.Since(b.lastBack) < escalateAfter {
		return
	}
	for _, r := range slices.Backward(b.runs) {
		if r.messages > 0 {
			b.failRun(r)
			b.serve()
			return
		}
	}
}

// mostModest returns the first waiter to be served among the waiters of the same kind as w.
func (b *Budget) mostModest(w *waiter) *waiter {
	for _, o := range b.owners {
		for _, other := range o.queue {
			if other.hold.run == nil && other.hold.kind == w.hold.kind && other.compare(w) < 0 {
				w = other
			}
		}
	}
	return w
}
