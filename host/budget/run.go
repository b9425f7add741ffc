package budget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Run is what the run of a script has, with the runs of the saved tools that it
// calls. Its methods are safe for concurrent use. Whoever opens one closes it.
//
// A run that waits keeps what it has, so runs could wait for each other for ever.
// They do not: a run can finish as long as one of its goroutines is at work, and
// as long as one run can, the others wait. When none can, nobody would give
// anything back. Then the headroom of owners counts no more, and if that does not
// help, the youngest run fails: of the owner that has most, if that is more than
// its share, or else of all. The next one follows when what it had has not been
// enough.
type Run struct {
	Hold
	number uint64 // in the order of their coming
	atWork int    // goroutines that wait neither for bytes nor for others of this run
	owned  int64  // bytes of messages that wait for the run
	err    error  // *ExhaustedError, once it has failed
	fail   context.CancelCauseFunc
}

// ExhaustedError says that a run has failed because all runs together want more
// than there is, or it alone more than it can ever have.
type ExhaustedError struct {
	// Total is that of the budget, Most what runs can have of it, and Used what
	// the run had: bytes.
	Total, Most, Used int64
}

func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("all runs together need more than the %d bytes that runs can have", e.Most)
}

// OpenRun makes a Run that has nothing yet, for an owner; see Budget. fail, which
// is called at most once, with an *ExhaustedError, is to end the run. It must
// not block.
func (b *Budget) OpenRun(key any, fail context.CancelCauseFunc) *Run {
	r := &Run{fail: fail}
	b.open(&r.Hold, key)
	r.Hold.run = r
	if b != nil {
		b.mu.Lock()
		b.last++
		r.number = b.last
		b.runs = append(b.runs, r)
		b.mu.Unlock()
	}
	return r
}

// Work says that n more goroutines of the run are at work, or fewer. Each that
// waits for others of the same run, or has ended, counts no more. The number
// must not fall to nothing in between, while the run can go on.
func (r *Run) Work(n int) {
	b := r.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	r.work(n)
	b.serve()
}

func (r *Run) work(n int) {
	before := r.atWork > 0
	r.atWork += n
	if after := r.atWork > 0; before != after {
		if after {
			r.budget.able++
		} else {
			r.budget.able--
		}
	}
}

// Own says that n more bytes of the messages in flight are of the run, its request
// and answers to its calls, and will be there as long as it is.
func (r *Run) Own(n int64) {
	b := r.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if !r.closed {
		r.owned += n
	}
}

// Close gives everything back. Nothing of the run may be at work any more. It
// may be called again.
func (r *Run) Close() {
	b := r.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if r.closed {
		return
	}
	r.work(-r.atWork)
	if r.err != nil {
		b.dying--
	}
	b.runs = slices.DeleteFunc(b.runs, func(other *Run) bool { return other == r })
	b.close(&r.Hold)
}

// mostOfRuns is what all runs can have together.
func (b *Budget) mostOfRuns() int64 { return b.total - b.mostOfMessages() }

// unlock gives the lock away, and then tells the runs that have failed.
func (b *Budget) unlock() {
	failed := b.failed
	b.failed = nil
	b.mu.Unlock()
	for _, r := range failed {
		if r.fail != nil {
			r.fail(r.err)
		}
	}
}

// exhaust has a run fail.
func (b *Budget) exhaust(r *Run) {
	r.err = &ExhaustedError{Total: b.total, Most: b.mostOfRuns(), Used: r.bytes}
	b.failed = append(b.failed, r)
	b.dying++
	for len(r.waiters) > 0 {
		w := r.waiters[0]
		w.err = r.err
		b.leave(w)
	}
}

// settle sees to it that runs do not wait for each other; see Run. It returns
// whether there is something to serve again.
func (b *Budget) settle() bool {
	if b.able > 0 || b.dying > 0 { // what has failed is about to give back what it has
		return false
	}
	if first := b.oldest(b.mostOfRuns() - b.inRuns); first != nil {
		b.grant(first)
		return true
	}
	if victim := b.youngest(); victim != nil {
		b.exhaust(victim)
		return true
	}
	return false
}

// oldest is the one of the runs that has waited longest among those who want at
// most room bytes; nil when there is none.
func (b *Budget) oldest(room int64) *waiter {
	var oldest *waiter
	for _, r := range b.runs {
		for _, w := range r.waiters {
			if w.bytes <= room && (oldest == nil || w.number < oldest.number) {
				oldest = w
			}
		}
	}
	return oldest
}

// youngest is the run that has to fail; nil when none that waits has anything.
func (b *Budget) youngest() *Run {
	held := map[*owner]int64{}
	var waiting []*Run
	for _, r := range b.runs {
		held[r.owner] += r.bytes
		if len(r.waiters) > 0 && r.bytes > 0 {
			waiting = append(waiting, r)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	share := b.mostOfRuns() / int64(len(held))
	return slices.MaxFunc(waiting, func(a, c *Run) int {
		over := func(r *Run) int64 { return max(0, held[r.owner]-share) }
		return cmp.Or(cmp.Compare(over(a), over(c)), cmp.Compare(a.number, c.number))
	})
}
