package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

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
