package budget

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// Small is the size in bytes up to which messages are not counted.
const Small = 64 << 10

// Copies is what a message takes for each of its bytes: itself, and the form in
// which it is passed on.
const Copies = 2

const (
	// patience is how long a message waits before one of those that wait may go
	// beyond the budget, or, if one has already, a run gives way to an answer.
	patience = time.Second
	// firstPause is how long who waits pauses before it has the collector free
	// messages that nobody has any more. The next pauses are longer.
	firstPause = 10 * time.Millisecond
)

// kind is what a Hold is for.
type kind int

const (
	body    kind = iota // grows as it comes, on a connection of its own
	request             // of a stream that brings other messages too
	answer              // needed for others to end
)

// OpenRequest makes a Hold for a message of a client that comes in a stream. One
// request at a time of those that have waited for long may go beyond the budget:
// what others wait for can be behind it.
func (b *Budget) OpenRequest(key any) *Hold {
	h := &Hold{kind: request}
	b.open(h, key)
	return h
}

// OpenAnswer makes a Hold for a message of a server. It can fill what is for
// messages to the last byte, whoever it is for, and one answer at a time may go beyond.
// Where that is not enough, since what there is waits for runs that wait
// themselves, the youngest run that has answers fails.
func (b *Budget) OpenAnswer() *Hold {
	h := &Hold{kind: answer}
	b.open(h, nil)
	return h
}

// Fit makes what the Hold has enough for a message of size bytes, on its way; see
// Acquire.
func (h *Hold) Fit(ctx context.Context, size int) error {
	want := int64(size) * Copies
	if had := h.Bytes(); want < had {
		h.Release(had - want)
		return nil
	} else {
		return h.Acquire(ctx, want-had)
	}
}

// Attach has the Hold closed when nobody has the message any more that starts with
// the first byte of b, which is a whole piece of memory: when the collector has
// freed it. Whoever waits has it look often.
func (h *Hold) Attach(b []byte) {
	if h.budget == nil || len(b) == 0 {
		h.Close()
		return
	}
	h.budget.mu.Lock()
	h.attached = true
	h.budget.attached++
	h.budget.kickWaiting()
	h.budget.passed(h.bytes)
	h.budget.mu.Unlock()
	runtime.AddCleanup(&b[0], (*Hold).Close, h)
}

// Count counts a message that there is already, such as a result that waits to be
// written, until nobody has it any more. It does not wait: others do then. b is a
// whole piece of memory; a small one is not counted.
func (b *Budget) Count(message []byte) {
	if b == nil || len(message) <= Small {
		return
	}
	h := b.OpenAnswer()
	b.mu.Lock()
	b.take(h, int64(len(message)))
	b.mu.Unlock()
	h.Attach(message)
}

// kickWaiting has one of those who wait look for garbage.
func (b *Budget) kickWaiting() {
	if b.attached > 0 && b.waiting > 0 {
		select {
		case b.kick <- struct{}{}:
		default:
		}
	}
}

// await waits until w is served, ctx ends, or it has failed.
func (h *Hold) await(ctx context.Context, w *waiter) error {
	b, began, pause := h.budget, time.Now(), firstPause
	kick := b.kick
	if h.run != nil { // garbage has nothing of what it waits for
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
			if time.Since(began) >= patience {
				b.insist(w)
			}
			pause = min(2*pause, patience/2)
		}
		if timer != nil {
			timer.Stop()
		}
		if ended {
			return b.leaveFor(ctx, w)
		}
	}
}

// leaveFor ends the waiting of w, for whatever reason.
func (b *Budget) leaveFor(ctx context.Context, w *waiter) error {
	b.mu.Lock()
	defer b.unlock()
	select {
	case <-w.ready: // perhaps at the same time as ctx
		return w.err
	default:
	}
	b.leave(w)
	b.serve() // who is behind it may fit
	return context.Cause(ctx)
}

func (b *Budget) hasAttached() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attached > 0
}

// collect frees messages that nobody has any more. One goroutine does at a time.
func (b *Budget) collect() {
	if !b.hasAttached() || !b.collecting.TryLock() {
		return
	}
	defer b.collecting.Unlock()
	runtime.GC()
}

// insist gives way to a message that has waited for long.
func (b *Budget) insist(w *waiter) {
	b.mu.Lock()
	defer b.unlock()
	select {
	case <-w.ready:
		return
	default:
	}
	if b.beyond[w.hold.kind] == nil {
		b.beyond[w.hold.kind] = w.hold
		b.grant(w)
		return
	}
	if w.hold.kind != answer || b.dying > 0 || time.Since(b.lastBack) < patience {
		return
	}
	for _, r := range slices.Backward(b.runs) {
		if r.owned > 0 {
			b.exhaust(r)
			b.serve()
			return
		}
	}
}
