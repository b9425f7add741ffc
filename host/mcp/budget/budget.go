// Package budget shares a number of bytes among everything in flight: the memory of runs and the
// messages. A request for more bytes than are free waits, and no session can starve other sessions.
//
// Begin with Budget. A Hold has the bytes of a message, an Account bytes that change often and
// never wait, a Run the bytes of a run. Turns share work on the host instead of bytes. LimitHeap
// limits the host's own heap.
package budget

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Budget is a shared number of bytes. The methods are safe for concurrent use. A nil Budget is
// unlimited, and the holds of a nil Budget count nothing.
//
// Three quarters are for runs, the rest is for messages and kept data; see part. So no run waits
// for messages, which may in turn wait for runs.
//
// Bytes are taken for an owner: a session, a server, or a credential before the session begins. An
// owner is any comparable value; nil is the host itself. A [Member] is an owner that belongs to a
// group, such as a session of a principal; then both are bounded. The bytes of an owner, and of a
// group, may be at most eight times the bytes that then remain free (the dynamic thresholds of
// Choudhury and Hahne, 1998). So a single owner leaves a ninth for later ones, and two leave a
// seventeenth. Among the fitting waiters, a waiter of the group with the fewest bytes is served
// first, within the group a waiter of the owner with the fewest bytes, and for the same owner the
// waiter with the longest wait.
type Budget struct {
	total int64

	mu         sync.Mutex // guards the fields up to idle
	used       int64
	peak       int64
	in         [parts]int64 // used bytes of each part
	waiting    int
	owners     map[any]*owner
	last       uint64 // number of the last run or waiter
	runs       []*Run // open runs, the oldest first
	runnable   int    // number of unblocked runs; see Run.active
	attached   int    // number of holds attached to their messages
	kick       chan struct{}
	overBudget [kinds]*Hold // for each kind, the message above the budget; nil: none
	beyond     *Account     // the Account above the budget; nil: none
	lastBack   time.Time    // when bytes were last returned
	failing    int          // number of failed runs that are still open
	failed     []*Run       // failed runs whose fail functions are to be called without the lock

	burst int64       // bytes of messages since memory was last returned to the system
	idle  *time.Timer // returns memory to the system; nil before the first burst

	collecting sync.Mutex // held while the garbage collector runs
}

// leftFactor bounds the bytes of an owner to a multiple of the remaining bytes.
const leftFactor = 8

// New returns a budget of total bytes; 0 means DefaultTotal().
func New(total int64) *Budget {
	if total <= 0 {
		total = DefaultTotal()
	}
	return &Budget{total: total, owners: map[any]*owner{}, kick: make(chan struct{}, 1)}
}

// owner is an owner with bytes, or waiting for bytes.
type owner struct {
	key   any
	group *owner // nil: none
	in    [parts]int64
	holds int       // number of open holds; for a group including the holds of the group's owners
	queue []*waiter // in order of arrival
}

// Member is the key of an owner in a group. The bytes of the group are bounded too.
type Member struct {
	Group any // nil: no group
	Of    any // the owner
}

// waiter is a pending request of a hold for more bytes.
type waiter struct {
	hold   *Hold
	bytes  int64
	number uint64        // in order of arrival
	ready  chan struct{} // closed when the request was granted or has failed
	err    error         // reason for the failure, or nil
}

// Figures are the figures of a Budget, in bytes.
type Figures struct {
	Total, Used, Peak int64
	// Runs is the runs' part of Used.
	Runs int64
	// Waiting is the number of waiting requests.
	Waiting int
}

// Figures returns how much is used.
func (b *Budget) Figures() Figures {
	if b == nil {
		return Figures{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Figures{Total: b.total, Used: b.used, Peak: b.peak, Runs: b.in[ofRuns], Waiting: b.waiting}
}

// Total returns the size of the budget in bytes; 0 for a nil Budget.
func (b *Budget) Total() int64 {
	if b == nil {
		return 0
	}
	return b.total
}

// take gives n bytes to h, or returns some if n is negative.
func (b *Budget) take(h *Hold, n int64) {
	p := h.part()
	h.bytes += n
	h.owner.in[p] += n
	if h.owner.group != nil {
		h.owner.group.in[p] += n
	}
	b.in[p] += n
	b.used += n
	if n < 0 && b.waiting > 0 {
		b.lastBack = time.Now()
	}
	b.peak = max(b.peak, b.used)
}

// serve grants requests as long as a request fits.
func (b *Budget) serve() {
	for b.waiting > 0 {
		if next := b.next(); next != nil {
			b.grant(next)
		} else if !b.breakDeadlock() {
			return
		}
	}
}

// next returns the waiter to serve now; nil if none fits.
func (b *Budget) next() *waiter {
	var next *waiter
	for _, o := range b.owners {
		i := slices.IndexFunc(o.queue, func(w *waiter) bool { return b.fits(w.hold, w.bytes) })
		if i < 0 {
			continue
		}
		w := o.queue[i]
		if next == nil || w.compare(next) < 0 {
			next = w
		}
	}
	return next
}

// compare orders two waiters: first the waiter with fewer bytes of the group, or else of the owner,
// or else the waiter with the longer wait.
func (w *waiter) compare(other *waiter) int {
	group, own := w.hold.shares()
	otherGroup, otherOwn := other.hold.shares()
	return cmp.Or(cmp.Compare(group, otherGroup), cmp.Compare(own, otherOwn), cmp.Compare(w.number, other.number))
}

// enqueue adds a request of h for n bytes to the queue.
func (b *Budget) enqueue(h *Hold, n int64) *waiter {
	b.last++
	w := &waiter{hold: h, bytes: n, number: b.last, ready: make(chan struct{})}
	h.waiters = append(h.waiters, w)
	h.owner.queue = append(h.owner.queue, w)
	b.waiting++
	if h.run != nil {
		h.run.addWorkers(-1)
	}
	return w
}

// grant gives w the requested bytes.
func (b *Budget) grant(w *waiter) {
	b.take(w.hold, w.bytes)
	b.dequeue(w)
}

// dequeue removes w from the queue and closes w.ready.
func (b *Budget) dequeue(w *waiter) {
	isW := func(other *waiter) bool { return other == w }
	w.hold.waiters = slices.DeleteFunc(w.hold.waiters, isW)
	w.hold.owner.queue = slices.DeleteFunc(w.hold.owner.queue, isW)
	b.waiting--
	b.kickWaiting() // w may have been the waiter about to collect garbage
	if w.hold.run != nil {
		w.hold.run.addWorkers(1)
	}
	close(w.ready)
}
