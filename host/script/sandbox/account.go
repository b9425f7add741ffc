package sandbox

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// Account is the fuel and the number of calls that a script and the scripts called by the script
// may use together, in addition to the limits of each run. An Account is safe for concurrent use.
// When concurrent runs share an Account, timing determines which of them finds the Account empty,
// but not how much each has used by then.
//
// An Account also holds the runs' part of Options.Budget.
type Account struct {
	fuel, calls       atomic.Int64 // the unused rest
	allFuel, allCalls int64
	owner             any

	mu           sync.Mutex  // guards the fields below
	run          *budget.Run // nil while none of the runs is active
	runs         int         // number of active runs
	messages     int64       // bytes of messages that belong to the runs
	memory, peak uint64      // linear memory of their instances
}

// NewAccount makes an account with the fuel and the calls of l. The runs use the
// share of owner, any comparable value, of Options.Budget; see budget.Budget.
func NewAccount(l Limits, owner any) *Account {
	l = l.WithDefaults()
	a := &Account{allFuel: int64(l.Fuel), allCalls: int64(l.Calls), owner: owner}
	a.fuel.Store(a.allFuel)
	a.calls.Store(a.allCalls)
	return a
}

// takeFuel takes wanted units, or the rest. A nil account has no limit.
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

// Charge takes units of fuel for work outside of a run, or the rest. taken is the number of taken
// units.
func (a *Account) Charge(units uint64) (taken uint64, enough bool) {
	got := a.takeFuel(int64(min(units, maxFuel)))
	return uint64(got), uint64(got) == units
}

func (a *Account) returnFuel(units int64) {
	if a != nil {
		a.fuel.Add(units)
	}
}

// takeCalls takes n calls, or none if fewer are left, and reports which.
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

// begin registers a run. The first run, which calls the others, gets a context that ends when they
// fail for lack of memory; the contexts of the others are derived from that context. The caller
// must call end when the run has ended.
func (a *Account) begin(ctx context.Context, b *budget.Budget) (_ context.Context, end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs++; a.runs > 1 {
		return ctx, a.end
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a.run = b.OpenRun(a.owner, cancel)
	a.run.AddWorkers(1)
	a.run.AddMessage(a.messages)
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

// AddWorkers adds n, which may be negative, to the number of goroutines that work for the runs,
// such as goroutines for concurrent calls of a run. A goroutine that waits for another of them does
// not count; see budget.Run.AddWorkers. The goroutine of the script is already counted.
func (a *Account) AddWorkers(n int) {
	if run := a.budgetRun(); run != nil {
		run.AddWorkers(n)
	}
}

// AddMessage registers a message of n bytes for the runs; see budget.Run.AddMessage. Small messages
// do not count.
func (a *Account) AddMessage(n int) {
	if n <= budget.Small {
		return
	}
	n *= budget.Copies
	a.mu.Lock()
	defer a.mu.Unlock()
	a.messages += int64(n)
	if a.run != nil {
		a.run.AddMessage(int64(n))
	}
}

// budgetRun returns the runs' part of the budget; nil if no run is active.
func (a *Account) budgetRun() *budget.Run {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run
}

// addMemory adds n bytes, which may be negative, to the linear memory of the instances.
func (a *Account) addMemory(n int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memory = uint64(int64(a.memory) + n)
	a.peak = max(a.peak, a.memory)
}

// Peak returns the largest total of linear memory that the runs had at the same time, in bytes.
func (a *Account) Peak() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peak
}
