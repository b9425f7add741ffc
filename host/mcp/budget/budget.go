// Package budget shares a number of bytes among everything in flight: the memory of runs and the
// messages. A request for more bytes than are free waits, and no session can starve other sessions.
//
// Begin with Budget. A Hold has the bytes of a message, an Account bytes that change often and
// never wait, a Run the bytes of a run. Turns share work on the host instead of bytes. LimitHeap
// limits the host's own heap.
package budget

import (
	"cmp"
	"context"
	"fmt"
	"math"
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

// part is a part of a Budget. Runs have three quarters; the rest is the memory of messages. Of the
// memory of messages,
//
//   - lists of servers can have a half, sessions with the data kept beyond a request a
//     quarter, and saved tools an eighth: they stay for long. Kept data leaves a quarter of its
//     part for sessions;
//   - messages unread by clients can have a half of the memory left by these three;
//   - messages in reading and handling can have the memory left by these three. Messages of clients
//     leave a quarter of it for answers of servers, without which calls in flight could not finish.
//
// Unread messages of clients are counted separately, since they do not wait: no answer would end
// their wait.
type part int

const (
	ofRuns part = iota
	ofMessages
	ofUnread
	ofSessions
	ofLists
	ofSaved
	parts
)

// partOf is the part of each kind of Hold.
var partOf = [kinds]part{body: ofMessages, request: ofMessages, answer: ofMessages, unread: ofUnread, session: ofSessions, kept: ofSessions, list: ofLists, savedTool: ofSaved}

// part returns the part of h.
func (h *Hold) part() part {
	if h.run != nil {
		return ofRuns
	}
	return partOf[h.kind]
}

// shares returns the bytes of the group and the owner of h in h's part.
func (h *Hold) shares() (group, own int64) {
	own = h.owner.in[h.part()]
	if group = own; h.owner.group != nil {
		group = h.owner.group.in[h.part()]
	}
	return group, own
}

// TooLargeError means that a request can never fit, even after a wait.
type TooLargeError struct {
	Bytes, Most int64 // the requested bytes, and the maximum of one owner
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d bytes exceed the share of %d bytes that one session can have of the memory for messages", e.Bytes, e.Most)
}

// LimitName returns the name of the reached limit; see package limits.
func (e *TooLargeError) LimitName() string { return "total_memory" }

// mostOfMessages returns the most bytes for all messages together, including kept data.
func (b *Budget) mostOfMessages() int64 { return b.total / 4 }

// LargestMessage returns the size of the largest readable message, in bytes; 0 for no limit.
func (b *Budget) LargestMessage() int {
	if b == nil {
		return 0
	}
	return int(min(b.mostOfMessages()/Copies, math.MaxInt))
}

// forMessages returns the bytes that lists, sessions and saved tools leave for messages.
func (b *Budget) forMessages() int64 {
	return b.mostOfMessages() - b.in[ofLists] - b.in[ofSessions] - b.in[ofSaved]
}

// ceiling returns the number of bytes up to which h may fill h's part of the budget.
func (b *Budget) ceiling(h *Hold) int64 {
	switch h.part() {
	case ofRuns:
		return b.mostOfRuns()
	case ofLists:
		return b.mostOfMessages() / 2
	case ofSessions:
		if h.kind == kept {
			return b.mostOfMessages() / 16 * 3
		}
		return b.mostOfMessages() / 4
	case ofSaved:
		return b.mostOfMessages() / 8
	case ofUnread:
		return b.forMessages() / 2
	}
	if h.kind == answer {
		return b.forMessages()
	}
	return b.forMessages() / 4 * 3
}

// most returns the most bytes that h can ever have. A single message may exceed the budget, but not
// by more than the memory of all messages.
func (b *Budget) most(h *Hold) int64 {
	switch {
	case h.run != nil:
		return b.mostOfRuns()
	case h.kind == answer, h.kind == request:
		return b.mostOfMessages()
	case h.kind == body:
		return b.mostOfMessages() / 4 * 3 * leftFactor / (leftFactor + 1)
	}
	return b.ceiling(h) * leftFactor / (leftFactor + 1)
}

// against returns the bytes that count against the ceiling of h.
func (b *Budget) against(h *Hold) int64 {
	if p := h.part(); p != ofMessages {
		return b.in[p]
	}
	return b.in[ofMessages] + b.in[ofUnread]
}

// fits reports whether h can have n more bytes now.
func (b *Budget) fits(h *Hold, n int64) bool {
	if h.run == nil && b.overBudget[h.kind] == h {
		return true
	}
	left := b.ceiling(h) - b.against(h) - n
	if left < 0 {
		return false
	}
	if h.kind == answer && h.owner.key == nil { // of no server in particular
		return true
	}
	group, own := h.shares()
	return group+n <= leftFactor*left && own+n <= leftFactor*left
}

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
