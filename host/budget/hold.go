package budget

import "context"

// Hold is what one message, or something else that is in flight, has of a
// Budget. Its methods are safe for concurrent use. Whoever opens one closes it.
type Hold struct {
	budget *Budget // nil: nothing is counted
	owner  *owner
	bytes  int64
	closed bool
}

// Open makes a Hold that has nothing yet, for an owner; see Budget.
func (b *Budget) Open(key any) *Hold {
	if b == nil {
		return &Hold{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.owners[key]
	if o == nil {
		o = &owner{key: key}
		b.owners[key] = o
	}
	o.holds++
	return &Hold{budget: b, owner: o}
}

// Acquire takes n bytes more, and waits for them if need be. The error is the
// cause of ctx, or a *TooLargeError for what can never fit; then it has what it
// had before. A closed Hold gets nothing, without an error.
//
// Whoever waits must not hold anything that others need for coming to an end but
// the bytes themselves.
func (h *Hold) Acquire(ctx context.Context, n int64) error {
	b := h.budget
	if b == nil || n <= 0 {
		return nil
	}
	b.mu.Lock()
	if h.closed {
		b.mu.Unlock()
		return nil
	}
	if most := b.most(); h.bytes+n > most {
		defer b.mu.Unlock()
		return &TooLargeError{Bytes: h.bytes + n, Most: most}
	}
	w := b.enter(h, n)
	b.serve()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready: // it came at the same time
		return nil
	default:
	}
	b.leave(w)
	b.serve() // who is behind it may fit
	return context.Cause(ctx)
}

// TryAcquire takes n bytes more if it need not wait for them.
func (h *Hold) TryAcquire(n int64) bool {
	b := h.budget
	if b == nil || n <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.closed || len(h.owner.queue) > 0 || !b.fits(h, n) {
		return h.closed
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
	defer b.mu.Unlock()
	if n = min(n, h.bytes); n > 0 {
		b.giveBack(h, n)
		b.serve()
	}
}

// Close gives everything back. It may be called again.
func (h *Hold) Close() {
	b := h.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	b.giveBack(h, h.bytes)
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
