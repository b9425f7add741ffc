package sandbox

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
)

// Account is what several runs may use together, beside the limits that each of
// them has: the fuel and the calls of a script and of those that it calls. It is
// safe for concurrent use. Where runs use it at the same time, the one that finds
// it empty depends on which was faster; how much each uses until then does not.
//
// It is also what they have of Options.Budget, all together.
type Account struct {
	fuel, calls       atomic.Int64 // left
	allFuel, allCalls int64
	owner             any

	mu           sync.Mutex  // guards what follows
	run          *budget.Run // nil while none of them is under way
	runs         int         // that are under way
	owned        int64       // bytes of messages that are of the runs
	memory, peak uint64      // linear memory of their instances
}

// NewAccount opens an account with the fuel and the calls of l. owner is whose
// share of Options.Budget the runs take, any comparable value; see
// budget.Budget.
func NewAccount(l Limits, owner any) *Account {
	l = l.WithDefaults()
	a := &Account{allFuel: int64(l.Fuel), allCalls: int64(l.Calls), owner: owner}
	a.fuel.Store(a.allFuel)
	a.calls.Store(a.allCalls)
	return a
}

// takeFuel takes wanted units, or what is left. A nil account has no end.
func (a *Account) takeFuel(wanted int64) int64 {
	if a == nil {
		return wanted
	}
	for {
		left := a.fuel.Load()
		taken := min(left, wanted)
		if a.fuel.CompareAndSwap(left, left-taken) {
			return taken
		}
	}
}

// Charge takes units of fuel for work that was done outside of a run, or what is
// left. It says how many it took, and whether they were enough.
func (a *Account) Charge(units uint64) (taken uint64, enough bool) {
	got := a.takeFuel(int64(min(units, maxFuel)))
	return uint64(got), uint64(got) == units
}

func (a *Account) returnFuel(units int64) {
	if a != nil {
		a.fuel.Add(units)
	}
}

// takeCalls takes n calls, or none.
func (a *Account) takeCalls(n int) bool {
	if a == nil {
		return true
	}
	for {
		left := a.calls.Load()
		if int64(n) > left {
			return false
		}
		if a.calls.CompareAndSwap(left, left-int64(n)) {
			return true
		}
	}
}

// begin counts a run. The first, which calls the others, gets a context that ends
// when they fail for lack of memory; the others have theirs from it. end is to
// be called when the run has ended.
func (a *Account) begin(ctx context.Context, b *budget.Budget) (_ context.Context, end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs++; a.runs > 1 {
		return ctx, a.end
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a.run = b.OpenRun(a.owner, cancel)
	a.run.Work(1)
	a.run.Own(a.owned)
	return ctx, func() { a.end(); cancel(nil) }
}

func (a *Account) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs--; a.runs == 0 {
		a.run.Close()
		a.run = nil
	}
}

// Work says that n more goroutines are at work for the runs, or fewer: those
// that make calls of one run at the same time. One that waits for others of them
// is not at work; see budget.Run.Work. The one that runs the script counts
// already.
func (a *Account) Work(n int) {
	if run := a.holding(); run != nil {
		run.Work(n)
	}
}

// Own says that a message in flight is of the runs, with n bytes; see
// budget.Run.Own. Small ones do not count.
func (a *Account) Own(n int) {
	if n <= budget.Small {
		return
	}
	n *= budget.Copies
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owned += int64(n)
	if a.run != nil {
		a.run.Own(int64(n))
	}
}

// holding is what the runs have of the budget.
func (a *Account) holding() *budget.Run {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run
}

// grown notes that an instance has n bytes more of linear memory, or fewer.
func (a *Account) grown(n int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memory = uint64(int64(a.memory) + n)
	a.peak = max(a.peak, a.memory)
}

// Peak is the most linear memory that the runs had at the same time, in bytes.
func (a *Account) Peak() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peak
}
