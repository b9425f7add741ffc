package budget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Run is the part of a Budget for a run, including the runs of saved tools called by the run. The
// methods are safe for concurrent use. The caller of OpenRun must Close the Run.
//
// A run keeps bytes while waiting for more, so runs could wait for each other forever. Run prevents
// this deadlock as follows. A run can finish as long as one of the run's goroutines is active;
// while such a run exists, other runs wait. Without an active run, no bytes would be returned. Then
// waiters may use the bytes reserved for other owners, and if this does not help, the youngest run
// fails: among the runs of the owner with the most bytes if the owner's bytes exceed the share,
// otherwise among all. If the bytes of the failed run are not enough, the next youngest fails.
type Run struct {
	Hold
	number   uint64 // in the order of opening
	active   int    // goroutines that neither wait for bytes nor for other goroutines of this run
	messages int64  // bytes of messages of the run
	err      error  // *ExhaustedError, after the failure
	fail     context.CancelCauseFunc
}

// ExhaustedError means that a run has failed because all runs together need more bytes than the
// budget has, or because the run alone needs more than the maximum of a run.
type ExhaustedError struct {
	// Total is the size of the budget, Most the maximum of runs, and Used the bytes of the run.
	Total, Most, Used int64
}

func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("all runs together need more than the %d bytes for runs", e.Most)
}

// OpenRun returns an empty Run for an owner; see Budget. fail is called at most once, with an
// *ExhaustedError, and must end the run. fail must not block.
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

// AddWorkers adds n to the number of active goroutines of the run; n can be negative. Goroutines
// that have ended or wait for other goroutines of the same run are not active. The number must not
// become 0 while the run can continue.
func (r *Run) AddWorkers(n int) {
	b := r.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	r.addWorkers(n)
	b.serve()
}

func (r *Run) addWorkers(n int) {
	before := r.active > 0
	r.active += n
	if after := r.active > 0; before != after {
		if after {
			r.budget.runnable++
		} else {
			r.budget.runnable--
		}
	}
}

// AddMessage adds n to the bytes of messages in flight of the run: the request, and answers to the
// run's calls. The messages exist as long as the run.
func (r *Run) AddMessage(n int64) {
	b := r.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if !r.closed {
		r.messages += n
	}
}

// Close returns all bytes. All goroutines of the run must be inactive. Close may be called twice.
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
	r.addWorkers(-r.active)
	if r.err != nil {
		b.failing--
	}
	b.runs = slices.DeleteFunc(b.runs, func(other *Run) bool { return other == r })
	b.close(&r.Hold)
}

// mostOfRuns returns the most bytes for all runs together.
func (b *Budget) mostOfRuns() int64 { return b.total - b.mostOfMessages() }

// unlock releases the lock and then calls the fail functions of failed runs.
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

// failRun makes a run fail.
func (b *Budget) failRun(r *Run) {
	r.err = &ExhaustedError{Total: b.total, Most: b.mostOfRuns(), Used: r.bytes}
	b.failed = append(b.failed, r)
	b.failing++
	for len(r.waiters) > 0 {
		w := r.waiters[0]
		w.err = r.err
		b.dequeue(w)
	}
}

// breakDeadlock makes progress if all runs wait for each other; see Run. breakDeadlock reports
// whether to call serve again.
func (b *Budget) breakDeadlock() bool {
	if b.runnable > 0 || b.failing > 0 { // failed runs are about to return their bytes
		return false
	}
	if first := b.oldest(b.mostOfRuns() - b.in[ofRuns]); first != nil {
		b.grant(first)
		return true
	}
	if victim := b.youngest(); victim != nil {
		b.failRun(victim)
		return true
	}
	return false
}

// oldest returns the waiter of a run with the longest wait, among the waiters for at most room
// bytes; or nil.
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

// youngest returns the run to fail; nil if all waiting runs have no bytes.
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
