package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
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

// LimitTotalMemory is the limit on the memory of all runs together.
const LimitTotalMemory Limit = "total_memory"

// An instance is charged to the budget of all runs for the used memory of the machine: the part of
// the image that a typical run changes, and the growth of the memory. Before a possibly long wait,
// the first figure is replaced by the part that the instance has actually changed.

// measureInterval is the fuel between two measurements of the changed part of the image. A
// measurement takes as long as some ten thousand units.
const measureInterval = 100_000

// reserve takes the part of an image that a typical run changes, base bytes, from the budget.
func (i *instance) reserve(base uint64) error {
	if err := i.acquire(base); err != nil {
		return err
	}
	i.charged = base
	return nil
}

// grow is called by the memory before growing, on the goroutine of the guest.
func (i *instance) grow(bytes uint64) bool {
	if i.acquire(bytes) != nil {
		return false // the context has ended, which takes precedence
	}
	i.charged += bytes
	i.linear += bytes
	i.account.addMemory(int64(bytes))
	return true
}

// chargeMemory charges the current memory of the instance, before the instance waits for others.
func (i *instance) chargeMemory(ctx context.Context) {
	used := i.fuel.used()
	if i.account.budgetRun() == nil || i.measuredAt > 0 && used-i.measuredAt < measureInterval {
		return
	}
	i.measuredAt = used
	held := i.memory.Held()
	if held > i.charged {
		if i.acquire(held-i.charged) != nil {
			i.end(stopped(ctx, i.name))
		}
	} else {
		i.account.budgetRun().Release(int64(i.charged - held))
	}
	i.charged = held
}

// settleMemory returns everything to the budget, when the memory is released.
func (i *instance) settleMemory() {
	if run := i.account.budgetRun(); run != nil {
		run.Release(int64(i.charged))
	}
	i.account.addMemory(-int64(i.linear))
}

// acquire takes bytes of the budget. While waiting for them the instance holds no slot.
func (i *instance) acquire(bytes uint64) error {
	run := i.account.budgetRun()
	if run == nil || run.TryAcquire(int64(bytes)) {
		return nil
	}
	return i.slot.acquireMemory(run, int64(bytes)) // a run with an account has a slot
}

// acquireMemory waits for memory, without a slot. On an error, the run's context has
// ended and the run must not continue.
func (s *computeSlot) acquireMemory(run *budget.Run, bytes int64) error {
	s.release()
	err := s.queue(func() error { return run.Acquire(s.ctx, bytes) })
	if !s.acquire() && err == nil {
		err = context.Cause(s.ctx)
	}
	return err
}

// Exhausted returns the error of the script called name whose context has ended with cause, if the
// memory was not enough for all runs together; nil for any other cause. The contexts of scripts
// called by a script end with this cause.
func Exhausted(cause error, name string) *LimitError {
	var e *budget.ExhaustedError
	if !errors.As(cause, &e) {
		return nil
	}
	return &LimitError{
		Limit: LimitTotalMemory, Value: uint64(e.Total), Used: uint64(e.Used),
		Message: fmt.Sprintf("script %q: stopped with %s of memory, as the youngest of the scripts that wait for more memory: together they need more than the %s that scripts may use of %s",
			name, formatBytes(uint64(e.Used)), formatBytes(uint64(e.Most)), formatBytes(uint64(e.Total))),
	}
}

// freeCompute is the number of units of work without a slot: about a millisecond. Further work
// waits for a slot, like a guest.
const freeCompute = 2_000_000

// Compute is work of the host for a run, such as checking values against schemas. The work is
// charged to the run's account, ends with the context, and holds a slot if longer than about a
// millisecond. A Compute belongs to a single goroutine, which holds no other slot and must close
// the Compute.
type Compute struct {
	slot    computeSlot
	account *Account
	name    string
	spent   uint64
	memory  *budget.Budget
	end     func() // ends the Compute's part of the account; nil before memory was taken
}

var _ jsonvalue.Room = (*Compute)(nil)

// Compute begins work for the script called name. A nil account has no limit. The Compute of a zero
// Sandbox needs no slot.
func (s *Sandbox) Compute(ctx context.Context, name string, account *Account) *Compute {
	return &Compute{slot: computeSlot{slots: s.slots, ctx: ctx}, account: account, name: name, memory: s.total}
}

// Spend must be called before each piece of the work, with the units of the piece. Spend charges
// them, and waits for a slot if needed. If the context has ended, the error is the same as from
// Run; if the fuel is used up, the error is a [*LimitError] of [LimitFuel].
func (c *Compute) Spend(units uint64) error {
	if c.slot.ctx.Err() != nil {
		return stopped(c.slot.ctx, c.name)
	}
	taken, enough := c.account.Charge(units)
	c.spent += taken
	if !enough {
		all := uint64(c.account.allFuel)
		return &LimitError{
			Limit: LimitFuel, Value: all,
			Message: fmt.Sprintf("script %q: with the checking of values against schemas, more than %d units of fuel", c.name, all),
		}
	}
	if c.spent <= freeCompute || c.slot.slots == nil {
		return nil
	}
	if c.slot.held {
		c.slot.yield()
	} else {
		c.slot.acquire()
	}
	if !c.slot.held {
		return stopped(c.slot.ctx, c.name)
	}
	return nil
}

// Spent returns how many units have been charged so far.
func (c *Compute) Spent() uint64 { return c.spent }

// Take takes memory for the work, from the memory of the account's runs. While waiting, the Compute
// holds no slot. The errors are the errors of Spend, or a [*LimitError] of [LimitTotalMemory].
func (c *Compute) Take(bytes int64) error {
	if c.account == nil {
		return nil
	}
	if c.end == nil {
		c.slot.ctx, c.end = c.account.begin(c.slot.ctx, c.memory)
	}
	run := c.account.budgetRun()
	if run.TryAcquire(bytes) {
		return nil
	}
	c.slot.release() // Spend takes the slot again
	if c.slot.queue(func() error { return run.Acquire(c.slot.ctx, bytes) }) != nil {
		return stopped(c.slot.ctx, c.name)
	}
	return nil
}

// Give gives memory back.
func (c *Compute) Give(bytes int64) {
	if run := c.account.budgetRun(); run != nil {
		run.Release(bytes)
	}
}

// Close releases the slot, if held, and the memory.
func (c *Compute) Close() {
	c.slot.release()
	if c.end != nil {
		c.end()
		c.end = nil
	}
}
