// Package budget shares a number of bytes among everything in flight: the memory of
// runs and the messages. A request for more bytes than are free waits, and no session
// can take so much that nothing is left for others.
//
//	budget.go   Budget: who gets bytes, and in which order
//	part.go     the parts of a Budget, and what each of them can have
//	hold.go     Hold: the bytes of one message
//	account.go  Account: bytes that change often, and are never waited for
//	turns.go    Turns: who does work on the host, and in which order
//	message.go  messages in streams, which must not block others forever
//	run.go      Run: the bytes of a run, and which run fails if there are too few
//	heap.go     limiting the host's own heap
//	machine.go  the memory of the machine (machine_*.go: for each system)
package budget

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Budget is a number of bytes that are shared. Its methods are safe for concurrent use.
// A nil Budget is unlimited, and its holds count nothing.
//
// Three quarters of it are for runs, the rest is for messages and what is kept of them;
// see part. So no run waits for messages, which may in turn wait for runs.
//
// Bytes are taken for an owner: a session, a server, or a credential before there is a
// session. It is any comparable value; nil is the host itself. A [Member] is an owner
// that belongs to a group, such as a session of a principal; then both are bounded. The
// bytes of an owner, and of a group, may be at most eight times what then remains for all
// (the dynamic thresholds of Choudhury and Hahne, 1998). So a single owner leaves a ninth
// for later ones, and two leave a seventeenth. Among the waiters that fit, the one whose
// group has the fewest bytes is served first, and of that group the one whose owner has
// the fewest; among those of one owner, the one that has waited longest.
type Budget struct {
	total int64

	mu         sync.Mutex // guards the fields up to idle
	used       int64
	peak       int64
	in         [parts]int64 // what each part has of used
	waiting    int
	owners     map[any]*owner
	last       uint64 // number of the last run or waiter
	runs       []*Run // open runs, the oldest first
	runnable   int    // number of runs that are not blocked; see Run.active
	attached   int    // number of holds that close with their messages
	kick       chan struct{}
	overBudget [kinds]*Hold // for each kind, the message that may exceed the budget; nil: none
	beyond     *Account     // the one that exceeds the budget; nil: none
	lastBack   time.Time    // when bytes were last returned
	failing    int          // number of runs that have failed and are still open
	failed     []*Run       // failed runs whose fail functions are to be called without the lock

	burst int64       // bytes of messages since memory was last returned to the system
	idle  *time.Timer // returns it; nil before the first burst

	collecting sync.Mutex // held while the garbage collector runs
}

// leftFactor bounds the bytes of an owner to this multiple of what remains.
const leftFactor = 8

// New returns a budget of total bytes; 0 means DefaultTotal().
func New(total int64) *Budget {
	if total <= 0 {
		total = DefaultTotal()
	}
	return &Budget{total: total, owners: map[any]*owner{}, kick: make(chan struct{}, 1)}
}

// owner is an owner that has bytes, or waits for some.
type owner struct {
	key   any
	group *owner // nil: none
	in    [parts]int64
	holds int       // number of open holds; for a group also that of its owners
	queue []*waiter // in order of arrival
}

// Member is the key of an owner that belongs to a group, whose bytes are bounded, too.
type Member struct {
	Group any // nil: there is none
	Of    any // the owner
}

// waiter is a pending request of a hold for more bytes.
type waiter struct {
	hold   *Hold
	bytes  int64
	number uint64        // in order of arrival
	ready  chan struct{} // closed when the request was granted or has failed
	err    error         // why it has failed, or nil
}

// Figures are the figures of a Budget, in bytes.
type Figures struct {
	Total, Used, Peak int64
	// Runs is the part of Used that runs have.
	Runs int64
	// Waiting is the number of requests that wait for bytes.
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

// serve grants requests as long as one fits.
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

// compare says which of two waiters is served first: the one whose group, or else whose
// owner, has fewer bytes, or else the one that has waited longer.
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

// grant gives w the bytes that it waits for.
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
	b.kickWaiting() // w may have been the one that was to collect garbage
	if w.hold.run != nil {
		w.hold.run.addWorkers(1)
	}
	close(w.ready)
}
