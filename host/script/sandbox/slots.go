package sandbox

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// DefaultMaxQueued is the default of Options.MaxQueued.
const DefaultMaxQueued = 10_000

// timeSlice is how long a run may compute while others wait for a slot. The time is long compared
// to the cost of switching runs and too short for people to notice.
const timeSlice = 10 * time.Millisecond

// DefaultMaxConcurrent is the default of Options.MaxConcurrent: two slots for
// each CPU, because a run also waits for memory and for the host's garbage
// collector, and at least four.
func DefaultMaxConcurrent() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

// slots limit how many runs compute at the same time. A run needs a slot while the guest computes,
// and none while waiting for a tool or for a slow client. Runs get slots in the order of their
// requests, whether to start or to continue.
//
// An admitted run is never refused later: the run holds memory, and its calls may already have had
// effects. So the number of runs is limited at admission. A composite tool that calls another one
// cannot block itself: the outer run holds no slot while waiting for the inner one.
type slots struct {
	free        *semaphore.Weighted // first in, first out
	inFlight    atomic.Int64        // admitted runs
	maxInFlight int64               // limit of inFlight
	maxQueued   int
}

func newSlots(maxConcurrent, maxQueued int) *slots {
	if maxConcurrent <= 0 {
		maxConcurrent = DefaultMaxConcurrent()
	}
	if maxQueued <= 0 {
		maxQueued = DefaultMaxQueued
	}
	return &slots{
		free:        semaphore.NewWeighted(int64(maxConcurrent)),
		maxInFlight: int64(maxConcurrent) + int64(maxQueued), maxQueued: maxQueued,
	}
}

// admit admits a run, or returns an error if too many are admitted. Each admitted run must call
// leave once.
func (s *slots) admit(name string) error {
	if n := s.inFlight.Add(1); n > s.maxInFlight {
		s.inFlight.Add(-1)
		return &LimitError{
			Limit: LimitQueue, Value: uint64(s.maxQueued),
			Message: fmt.Sprintf("script %q: not started, %d others are waiting for their turn or for tools", name, s.maxQueued),
		}
	}
	return nil
}

func (s *slots) leave() { s.inFlight.Add(-1) }

// computeSlot is the slot of a run, held or not. Only the goroutine of the run uses a computeSlot.
type computeSlot struct {
	slots *slots
	ctx   context.Context // of the run; the computeSlot does not outlive ctx
	held  bool
	since time.Time // when the slot was acquired
	// queued is the time spent waiting for a slot and for memory.
	queued time.Duration
}

// queue calls wait and counts the time of the call.
func (s *computeSlot) queue(wait func() error) error {
	asked := time.Now()
	err := wait()
	s.since = time.Now()
	s.queued += s.since.Sub(asked)
	return err
}

// acquire waits for a slot. If the run's context has ended, acquire returns false and the run must
// not continue.
func (s *computeSlot) acquire() bool {
	s.held = s.queue(func() error { return s.slots.free.Acquire(s.ctx, 1) }) == nil
	return s.held
}

// release frees the slot if held.
func (s *computeSlot) release() {
	if s.held {
		s.held = false
		s.slots.free.Release(1)
	}
}

// yield passes the slot to the run that has waited longest, once this run has computed for a time
// slice.
func (s *computeSlot) yield() {
	if time.Since(s.since) >= timeSlice {
		s.release()
		s.acquire()
	}
}

// withoutSlot calls wait, which waits for a tool or a client, and holds no slot meanwhile. If no
// slot is held afterwards, the context has ended; the caller or the meter checks the context next.
func (i *instance) withoutSlot(wait func()) {
	if i.slot == nil {
		wait()
		return
	}
	i.unwatch() // waiting with a thread for itself would be slow
	i.slot.release()
	wait()
	i.slot.acquire()
	i.watch()
}

// yieldSlot is called by the meter before the check of the context. Without yieldSlot, a script
// that only computes would keep its slot until the end.
func (i *instance) yieldSlot() {
	if i.slot != nil {
		i.slot.yield()
	}
}
