// Package budget has a number of bytes that everything in flight shares: the
// memory of runs, and messages on their way. Who wants more than there is waits,
// and no session can take so much that nothing is left for others.
//
//	budget.go   Budget: who gets bytes, and in which order
//	hold.go     Hold: what one message has
//	message.go  messages in streams, which must not keep others back for ever
//	run.go      Run: what a script has, and which of them fails
//	heap.go     the host's own heap, beside it
//	machine.go  how much memory there is (machine_*.go: on each system)
package budget

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Budget is a number of bytes that is shared. Its methods are safe for
// concurrent use. A nil Budget has no bound, and its holds count nothing.
//
// Three quarters of it are for runs, and the rest is for messages. So no run waits
// for messages, which may be waiting for runs.
//
// An owner is whoever bytes are taken for: a session, or a credential before
// there is a session. It is any comparable value; nil is the host itself. Owners
// share by one rule: what an owner has may be at most eight times what is then
// left for all. So one alone leaves a ninth to those who come later, two leave a
// seventeenth (the dynamic thresholds of Choudhury and Hahne, 1998). Of those who
// wait and for whom there is room, the one whose owner has least is served first,
// and of one owner the one who has waited longest.
type Budget struct {
	total int64

	mu       sync.Mutex // guards what follows
	used     int64
	peak     int64
	inRuns   int64 // what runs have of used
	waiting  int
	owners   map[any]*owner
	last     uint64 // number of the last run or waiter
	runs     []*Run // that are open, the oldest first
	able     int    // runs of which something is at work
	attached int    // holds that close with their messages
	kick     chan struct{}
	beyond   [answer + 1]*Hold // of each kind, the message that goes beyond the budget; nil: none
	lastBack time.Time         // when something was given back
	dying    int               // runs that have failed and are still open
	failed   []*Run            // that are to be told so, without the lock

	burst int64       // bytes of messages since memory was given back
	idle  *time.Timer // gives it back; nil before the first burst

	collecting sync.Mutex // held while the collector is called
}

// leftFactor is how many times what is left an owner may have.
const leftFactor = 8

// New makes a budget of total bytes; 0: DefaultTotal().
func New(total int64) *Budget {
	if total <= 0 {
		total = DefaultTotal()
	}
	return &Budget{total: total, owners: map[any]*owner{}, kick: make(chan struct{}, 1)}
}

// owner is one who has bytes, or wants some.
type owner struct {
	key                any
	inRuns, inMessages int64
	holds              int       // that are open
	queue              []*waiter // in the order in which they came
}

// waiter is a hold that wants more.
type waiter struct {
	hold   *Hold
	bytes  int64
	number uint64        // in the order of their coming
	ready  chan struct{} // closed when it has them, or has failed
	err    error         // why it has not
}

// Figures are those of a Budget, in bytes.
type Figures struct {
	Total, Used, Peak int64
	// Runs is what runs have of Used.
	Runs int64
	// Waiting is how many wait for bytes.
	Waiting int
}

// Figures tells how much is used.
func (b *Budget) Figures() Figures {
	if b == nil {
		return Figures{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Figures{Total: b.total, Used: b.used, Peak: b.peak, Runs: b.inRuns, Waiting: b.waiting}
}

// Total is how much there is in all; 0 for a nil Budget.
func (b *Budget) Total() int64 {
	if b == nil {
		return 0
	}
	return b.total
}

// TooLargeError says that something can never fit, however long it waits.
type TooLargeError struct {
	Bytes, Most int64 // wanted, and what one owner can have
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d bytes are more than the %d that one session can have of the memory for messages", e.Bytes, e.Most)
}

// LimitName is the name of the limit that was met; see package limits.
func (e *TooLargeError) LimitName() string { return "total_memory" }

// mostOfMessages is what all messages can have together.
func (b *Budget) mostOfMessages() int64 { return b.total / 4 }

// ceiling is how far h may fill its part of the budget. What is above it for
// messages of clients is for answers, without which nothing in flight would come
// to an end.
func (b *Budget) ceiling(h *Hold) int64 {
	switch {
	case h.run != nil:
		return b.mostOfRuns()
	case h.kind == answer:
		return b.mostOfMessages()
	}
	return b.mostOfMessages() / 4 * 3
}

// most is what h can ever have: a message what one owner can have when there is
// no other, unless it may go beyond that.
func (b *Budget) most(h *Hold) int64 {
	switch {
	case h.run != nil:
		return b.mostOfRuns()
	case h.kind == answer:
		return math.MaxInt64
	case h.kind == request:
		return b.total
	}
	return b.ceiling(h) * leftFactor / (leftFactor + 1)
}

// fits tells whether h may have n bytes more now.
func (b *Budget) fits(h *Hold, n int64) bool {
	used := b.used - b.inRuns
	if h.run != nil {
		used = b.inRuns
	}
	left := b.ceiling(h) - used - n
	if h.kind == answer {
		return left >= 0 || b.beyond[answer] == h
	}
	return b.beyond[h.kind] == h || left >= 0 && *h.share()+n <= leftFactor*left
}

// share is what the owner of h has of the part that h is of.
func (h *Hold) share() *int64 {
	if h.run != nil {
		return &h.owner.inRuns
	}
	return &h.owner.inMessages
}

// take gives n bytes to h, or takes some back.
func (b *Budget) take(h *Hold, n int64) {
	h.bytes += n
	*h.share() += n
	b.used += n
	if n < 0 && b.waiting > 0 {
		b.lastBack = time.Now()
	}
	b.peak = max(b.peak, b.used)
	if h.run != nil {
		b.inRuns += n
	}
}

// serve gives bytes to those who wait, as long as there is one who fits.
func (b *Budget) serve() {
	for b.waiting > 0 {
		if next := b.next(); next != nil {
			b.grant(next)
		} else if !b.settle() {
			return
		}
	}
}

// next is who is to be served now; nil when nobody fits.
func (b *Budget) next() *waiter {
	var next *waiter
	for _, o := range b.owners {
		i := slices.IndexFunc(o.queue, func(w *waiter) bool { return b.fits(w.hold, w.bytes) })
		if i < 0 {
			continue
		}
		w := o.queue[i]
		if next == nil || cmp.Or(cmp.Compare(*w.hold.share(), *next.hold.share()), cmp.Compare(w.number, next.number)) < 0 {
			next = w
		}
	}
	return next
}

// enter has h wait for n bytes.
func (b *Budget) enter(h *Hold, n int64) *waiter {
	b.last++
	w := &waiter{hold: h, bytes: n, number: b.last, ready: make(chan struct{})}
	h.waiters = append(h.waiters, w)
	h.owner.queue = append(h.owner.queue, w)
	b.waiting++
	if h.run != nil {
		h.run.work(-1)
	}
	return w
}

// grant gives w what it waits for.
func (b *Budget) grant(w *waiter) {
	b.take(w.hold, w.bytes)
	b.leave(w)
}

// leave ends the waiting of w.
func (b *Budget) leave(w *waiter) {
	isW := func(other *waiter) bool { return other == w }
	w.hold.waiters = slices.DeleteFunc(w.hold.waiters, isW)
	w.hold.owner.queue = slices.DeleteFunc(w.hold.owner.queue, isW)
	b.waiting--
	b.kickWaiting() // it may have been the one that looked for garbage
	if w.hold.run != nil {
		w.hold.run.work(1)
	}
	close(w.ready)
}
