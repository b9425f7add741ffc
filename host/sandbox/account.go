package sandbox

import "sync/atomic"

// Account is what several runs may use together, beside the limits that each of
// them has: the fuel and the calls of a script and of those that it calls. It is
// safe for concurrent use. Where runs use it at the same time, the one that finds
// it empty depends on which was faster; how much each uses until then does not.
type Account struct {
	fuel, calls       atomic.Int64 // left
	allFuel, allCalls int64
}

// NewAccount opens an account with the fuel and the calls of l.
func NewAccount(l Limits) *Account {
	l = l.WithDefaults()
	a := &Account{allFuel: int64(l.Fuel), allCalls: int64(l.Calls)}
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
