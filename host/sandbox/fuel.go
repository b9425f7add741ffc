package sandbox

import (
	"context"
	"math"
	"runtime"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

const (
	// fuelSlice is how many units the guest gets at a time: about half a
	// millisecond of work, after which the host looks at the context. It is
	// also how long the host's own collector may have to wait for a guest.
	fuelSlice = 1 << 20
	// maxFuel keeps sums of fuel far from overflow.
	maxFuel = math.MaxInt64 / 4
)

// fuel is what an instance may still use. The guest counts down a global, and
// calls the host when that is below zero.
type fuel struct {
	counter api.MutableGlobal // the slice under way; nil before the start
	budget  int64
	left    int64    // of the budget, not yet in the counter
	account *Account // that slices are taken from as well; nil: none
	shared  bool     // it was the account that had not enough
}

// start gives the first slice of a budget to an instance.
func (f *fuel) start(m api.Module, budget int64, account *Account) {
	counter := m.ExportedGlobal(abi.ExportFuel).(api.MutableGlobal) // load has seen to it
	counter.Set(0)
	*f = fuel{counter: counter, budget: budget, left: budget, account: account}
	f.refill()
}

// refill gives the next slice, less what the last one was overdrawn by. It
// tells whether there was enough for that.
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

// settle gives back to the account what was not used of the last slice, or pays
// what was overdrawn.
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

// charge takes units for work that the host does for the guest. What is
// overdrawn is noticed when the guest looks at its counter next.
func (f *fuel) charge(units int) {
	if f.counter != nil {
		f.counter.Set(uint64(max(int64(f.counter.Get())-int64(units), -maxFuel)))
	}
}

// used is what has been used so far, at most the budget.
func (f *fuel) used() uint64 {
	if f.counter == nil {
		return 0
	}
	return uint64(min(f.budget, f.budget-f.left-int64(f.counter.Get())))
}

// fuelOut is called by the guest when its slice is used up.
func fuelOut(ctx context.Context, i *instance, _ []uint64) {
	// A guest in a tight loop holds its thread; without this, goroutines of
	// other runs wait for Go's own preemption, some 10 ms a time.
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
