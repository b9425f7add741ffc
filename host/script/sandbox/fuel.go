package sandbox

import (
	"context"
	"math"
	"runtime"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

const (
	// fuelSlice is the number of units in a slice: about a third of a millisecond of work, after
	// which the host checks the context. The host's garbage collector may have to wait for a guest
	// for as long.
	fuelSlice = 1 << 20
	// maxFuel keeps sums of fuel far from overflow.
	maxFuel = math.MaxInt64 / 4
)

// fuel is the remaining fuel of an instance. The guest counts down a global and calls the host
// below zero.
type fuel struct {
	counter api.MutableGlobal // the rest of the slice; nil before the start
	budget  int64
	left    int64    // of the budget, not yet in the counter
	account *Account // slices are also taken from account; nil: no account
	shared  bool     // the account ran out, not the budget
}

// fuelCounter returns the counter of an instance. compile has checked that the counter exists.
func fuelCounter(m api.Module) api.MutableGlobal {
	return m.ExportedGlobal(abi.ExportFuel).(api.MutableGlobal)
}

// start gives the first slice of a budget to an instance with counter.
func (f *fuel) start(counter api.MutableGlobal, budget int64, account *Account) {
	counter.Set(0)
	*f = fuel{counter: counter, budget: budget, left: budget, account: account}
	f.refill()
}

// refill adds the next slice, less the overdraft of the last slice, and reports whether the fuel
// was enough.
func (f *fuel) refill() bool {
	over := -int64(f.counter.Get()) // far from overflow: see charge
	if over > f.left {
		f.account.takeFuel(f.left)
		f.left = 0
		f.counter.Set(0)
		return false
	}
	slice := min(fuelSlice, f.left-over)
	taken := f.account.takeFuel(over + slice)
	if taken < over || taken == over && slice > 0 {
		f.left -= taken
		f.counter.Set(0)
		f.shared = true
		return false
	}
	f.left -= taken
	f.counter.Set(uint64(taken - over))
	return true
}

// settle returns the rest of the last slice to the account, or takes the overdraft from the
// account.
func (f *fuel) settle() {
	if f.counter == nil {
		return
	}
	if rest := int64(f.counter.Get()); rest > 0 {
		f.account.returnFuel(rest)
	} else {
		f.account.takeFuel(-rest)
	}
}

// charge takes units for work of the host for the guest. If the counter is overdrawn, the guest
// notices at the next check.
func (f *fuel) charge(units int) {
	if f.counter != nil {
		f.counter.Set(uint64(max(int64(f.counter.Get())-int64(units), -maxFuel)))
	}
}

// used returns the fuel used so far, at most the budget.
func (f *fuel) used() uint64 {
	if f.counter == nil {
		return 0
	}
	return uint64(min(f.budget, f.budget-f.left-int64(f.counter.Get())))
}

// fuelOut is called by the guest when the slice is used up.
func fuelOut(ctx context.Context, i *instance, _ []uint64) {
	if m, ok := i.memory.(restorable); ok {
		m.Forget() // a long run has a thread that others can use
	}
	// A guest in a tight loop holds a thread. Without Gosched, goroutines of other runs would wait
	// about 10 ms for Go's own preemption.
	runtime.Gosched()
	i.yieldSlot() // may wait until the context ends, so comes before the check of the context
	switch {
	case i.fuel.counter == nil:
		i.end(i.trap("it runs before it is started (it has a start function)"))
	case ctx.Err() != nil:
		i.end(stopped(ctx, i.name))
	case !i.fuel.refill():
		i.end(i.fuelLimit())
	}
}
