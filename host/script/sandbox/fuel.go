package sandbox

import (
	"context"
	"math"
	"runtime"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

const (
	// fuelSlice is how many units the guest gets at a time: a third of a
	// millisecond of work or so, after which the host checks the context. The host's
	// garbage collector may have to wait for a guest for that long.
	fuelSlice = 1 << 20
	// maxFuel keeps sums of fuel far from overflow.
	maxFuel = math.MaxInt64 / 4
)

// fuel is the fuel that an instance may still use. The guest counts down a global and
// calls the host when it is below zero.
type fuel struct {
	counter api.MutableGlobal // what is left of the slice; nil before the start
	budget  int64
	left    int64    // of the budget, not yet in the counter
	account *Account // slices are also taken from it; nil: none
	shared  bool     // the account ran out, not the budget
}

// fuelCounter returns the counter of an instance. compile has checked that there is one.
func fuelCounter(m api.Module) api.MutableGlobal {
	return m.ExportedGlobal(abi.ExportFuel).(api.MutableGlobal)
}

// start gives the first slice of a budget to an instance with that counter.
func (f *fuel) start(counter api.MutableGlobal, budget int64, account *Account) {
	counter.Set(0)
	*f = fuel{counter: counter, budget: budget, left: budget, account: account}
	f.refill()
}

// refill adds the next slice, less the overdraft of the last one. It reports whether
// there was enough fuel.
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

// settle returns the rest of the last slice to the account, or takes the overdraft from
// it.
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

// charge takes units for work that the host does for the guest. If the counter is
// overdrawn, the guest notices at its next check.
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

// fuelOut is called by the guest when its slice is used up.
func fuelOut(ctx context.Context, i *instance, _ []uint64) {
	if m, ok := i.memory.(restorable); ok {
		m.Forget() // a run that takes long has a thread that others can use
	}
	// A guest in a tight loop holds its thread. Without this, goroutines of other
	// runs would wait about 10 ms for Go's own preemption.
	runtime.Gosched()
	i.yieldSlot() // may wait until the context ends, so check that afterwards
	switch {
	case i.fuel.counter == nil:
		i.end(i.trap("it runs before it is started (it has a start function)"))
	case ctx.Err() != nil:
		i.end(stopped(ctx, i.name))
	case !i.fuel.refill():
		i.end(i.fuelLimit())
	}
}
