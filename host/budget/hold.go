package budget

import "context"

// Hold is what one message, or something else that is in flight, has of a
// Budget. Its methods are safe for concurrent use. Whoever opens one closes it.
type Hold struct {
	budget *Budget // nil: nothing is counted
	owner  *owner
	run    *Run // that it is part of; nil: a message
	kind   kind // of a message

	closed   bool // guarded by budget.mu, as is what follows
	attached bool
	bytes    int64
	waiters  []*waiter // that are of it
}

// Open makes a Hold that has nothing yet, for an owner; see Budget. It is for
// messages that grow as they come, beside others. So that they do not only wait for
// each other, one at a time of those that have waited for long may go beyond the
// budget.
func (b *Budget) Open(key any) *Hold {
	h := new(Hold)
	b.open(h, key)
	return h
}

func (b *Budget) open(h *Hold, key any) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.owners[key]
	if o == nil {
		o = &owner{key: key}
		b.owners[key] = o
	}
	o.holds++
	h.budget, h.owner = b, o
}

// Acquire takes n bytes more, and waits for them if need be. The error is the
// cause of ctx; for a message a *TooLargeError if it can never fit, and for a run
// an *ExhaustedError if it has failed. Then it has what it had before. A closed
// Hold gets nothing, without an error.
//
// Who waits must hold nothing that others need to come to an end, but the bytes.
func (h *Hold) Acquire(ctx context.Context, n int64) error {
	b := h.budget
	if b == nil || n <= 0 {
		return nil
	}
	b.mu.Lock()
	if done, err := h.acquireNow(n); done {
		b.unlock()
		return err
	}
	w := b.enter(h, n)
	b.serve()
	b.unlock()
	return h.await(ctx, w)
}

// acquireNow does what Acquire can do without waiting.
func (h *Hold) acquireNow(n int64) (done bool, err error) {
	b := h.budget
	switch most := b.most(h); {
	case h.closed:
		return true, nil
	case h.run != nil && h.run.err != nil:
		return true, h.run.err
	case h.bytes+n > most && h.run != nil:
		b.exhaust(h.run)
		return true, h.run.err
	case h.bytes+n > most:
		return true, &TooLargeError{Bytes: h.bytes + n, Most: most}
	case b.fits(h, n):
		b.take(h, n)
		return true, nil
	}
	return false, nil
}

// TryAcquire takes n bytes more if it need not wait for them.
func (h *Hold) TryAcquire(n int64) bool {
	b := h.budget
	if b == nil || n <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.closed {
		return true
	}
	if h.run != nil && h.run.err != nil || !b.fits(h, n) {
		return false
	}
	b.take(h, n)
	return true
}

// Release gives n bytes back, at most what it has.
func (h *Hold) Release(n int64) {
	b := h.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if n = min(n, h.bytes); n > 0 {
		b.take(h, -n)
		b.serve()
	}
}

// Close gives everything back. It may be called again. Nobody may wait in
// Acquire.
func (h *Hold) Close() {
	b := h.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if !h.closed {
		b.close(h)
	}
}

func (b *Budget) close(h *Hold) {
	h.closed = true
	if h.attached {
		b.attached--
	}
	if b.beyond[h.kind] == h {
		b.beyond[h.kind] = nil
	}
	b.take(h, -h.bytes)
	if h.owner.holds--; h.owner.holds == 0 {
		delete(b.owners, h.owner.key)
	}
	b.serve()
}

// Bytes is how much it has.
func (h *Hold) Bytes() int64 {
	if h.budget == nil {
		return 0
	}
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	return h.bytes
}
