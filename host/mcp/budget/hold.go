package budget

import "context"

// Hold is the part of a Budget of one message, or another thing in flight. The methods are safe for
// concurrent use. The caller that opens a Hold must Close it.
type Hold struct {
	budget *Budget // nil: nothing is counted
	owner  *owner
	run    *Run // the Run with this Hold; nil for a message
	kind   kind // of a message

	closed   bool // guarded by budget.mu, as are the fields below
	attached bool
	bytes    int64
	waiters  []*waiter // pending requests
}

// Open returns an empty Hold for an owner; see Budget. Open is for messages that grow during
// reading, concurrently with other messages. Such messages could wait for each other forever; so
// one message at a time may exceed the budget after a long wait.
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
	h.budget, h.owner = b, b.ownerOf(key)
}

// ownerOf returns the owner with a key, and adds a hold to the owner.
func (b *Budget) ownerOf(key any) *owner {
	member, ok := key.(Member)
	if ok && member.Group == nil {
		key, ok = member.Of, false
	}
	o := b.owners[key]
	if o == nil {
		o = &owner{key: key}
		b.owners[key] = o
	}
	o.holds++
	if ok {
		o.group = b.ownerOf(groupKey{member.Group})
	}
	return o
}

// groupKey is the key of a group. It differs from the key of an owner with the same value.
type groupKey struct{ any }

// leave counts a hold of o less.
func (b *Budget) leave(o *owner) {
	if o.group != nil {
		b.leave(o.group)
	}
	if o.holds--; o.holds == 0 {
		delete(b.owners, o.key)
	}
}

// Acquire takes n more bytes, after a wait if necessary. The error is the cause of ctx; a
// *TooLargeError for a message that can never fit; or an *ExhaustedError after the failure of a
// run. After an error the Hold has the same bytes as before. Acquire on a closed Hold does nothing.
//
// Except for bytes, the caller must not hold a resource that other holders need to finish.
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
	w := b.enqueue(h, n)
	b.serve()
	b.unlock()
	return h.await(ctx, w)
}

// acquireNow is Acquire without waiting.
func (h *Hold) acquireNow(n int64) (done bool, err error) {
	b := h.budget
	switch most := b.most(h); {
	case h.closed:
		return true, nil
	case h.run != nil && h.run.err != nil:
		return true, h.run.err
	case h.bytes+n > most && h.run != nil:
		b.failRun(h.run)
		return true, h.run.err
	case h.bytes+n > most:
		return true, &TooLargeError{Bytes: h.bytes + n, Most: most}
	case b.fits(h, n):
		b.take(h, n)
		return true, nil
	}
	return false, nil
}

// TryAcquire takes n more bytes if possible without waiting.
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

// Release returns n bytes, or all bytes of a smaller Hold.
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

// Close returns all bytes. Close may be called twice, but not during a call of Acquire.
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
	if b.overBudget[h.kind] == h {
		b.overBudget[h.kind] = nil
	}
	b.take(h, -h.bytes)
	b.leave(h.owner)
	b.serve()
}

// Bytes returns the number of bytes of the Hold.
func (h *Hold) Bytes() int64 {
	if h.budget == nil {
		return 0
	}
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	return h.bytes
}
