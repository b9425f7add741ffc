package sandbox

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// DefaultMaxQueued is the default of Options.MaxQueued.
const DefaultMaxQueued = 10_000

// timeSlice is how long a run may go on while others wait for their turn. It is
// long beside the cost of a change and short beside what people notice.
const timeSlice = 10 * time.Millisecond

// DefaultMaxConcurrent is the default of Options.MaxConcurrent: two for each
// CPU, since one that runs also waits for memory and for the host's collector,
// and four at least.
func DefaultMaxConcurrent() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

// slots are the places of runs. A run needs a slot while its guest computes,
// and none while it waits for a tool or for a slow client; runs that want one
// get it in the order in which they asked, be it to start or to go on.
//
// A run that has been admitted is never turned away later: it holds memory, and
// has perhaps changed the world already. So admission is what bounds them all,
// and a composite that calls a composite cannot block itself: the outer one
// holds no slot by then.
type slots struct {
	free      *semaphore.Weighted // first in, first out
	inFlight  atomic.Int64
	most      int64 // in flight at once
	maxQueued int
}

func newSlots(maxConcurrent, maxQueued int) *slots {
	if maxConcurrent <= 0 {
		maxConcurrent = DefaultMaxConcurrent()
	}
	if maxQueued <= 0 {
		maxQueued = DefaultMaxQueued
	}
	return &slots{
		free: semaphore.NewWeighted(int64(maxConcurrent)),
		most: int64(maxConcurrent) + int64(maxQueued), maxQueued: maxQueued,
	}
}

// admit lets a run in, or says that there are too many. leave lets it out.
func (s *slots) admit(name string) error {
	if n := s.inFlight.Add(1); n > s.most {
		s.inFlight.Add(-1)
		return &LimitError{
			Limit: LimitQueue, Value: uint64(s.maxQueued), Setting: "execution.max_queued",
			Message: fmt.Sprintf("script %q: not started, %d others are waiting for their turn or for tools (call again later)", name, s.maxQueued),
		}
	}
	return nil
}

func (s *slots) leave() { s.inFlight.Add(-1) }

// turn is the place of one run among the others: its Caller, which gives the
// slot away while it waits. It is used by the goroutine of the run alone.
type turn struct {
	Caller
	slots *slots
	ctx   context.Context // of the run, which the turn does not outlive
	held  bool
	since time.Time // when the slot was taken
	// queued is the time spent waiting for a slot, and for memory.
	queued time.Duration
}

// queue waits for something, and counts the time.
func (t *turn) queue(wait func() error) error {
	asked := time.Now()
	err := wait()
	t.since = time.Now()
	t.queued += t.since.Sub(asked)
	return err
}

// take waits for a slot. It is false when the run's context has ended; the run
// must not go on then.
func (t *turn) take() bool {
	t.held = t.queue(func() error { return t.slots.free.Acquire(t.ctx, 1) }) == nil
	return t.held
}

// give gives the slot away, if there is one.
func (t *turn) give() {
	if t.held {
		t.held = false
		t.slots.free.Release(1)
	}
}

// CallTools holds no slot while the tools work. When it cannot have one again,
// the context has ended, which its caller looks at next.
func (t *turn) CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer {
	t.give()
	answers := t.Caller.CallTools(ctx, calls)
	t.take()
	return answers
}

// Undo holds no slot while it waits for the server of the call.
func (t *turn) Undo(ctx context.Context, call abi.ToolCall) *abi.CallError {
	t.give()
	failed := t.Caller.Undo(ctx, call)
	t.take()
	return failed
}

// Progress holds no slot while the client takes the notification: one that
// reads slowly slows its own run, not those of others.
func (t *turn) Progress(p abi.Progress) {
	t.give()
	t.Caller.Progress(p)
	t.take()
}

// yield is for the meter, whenever it is about to look at the context: a script
// that only computes would keep its slot to its end.
func (i *instance) yield() {
	if t, ok := i.caller.(*turn); ok { // not while the guest is warmed up
		t.yield()
	}
}

// yield lets the run that has waited longest go first, if this one has had its
// time.
func (t *turn) yield() {
	if time.Since(t.since) >= timeSlice {
		t.give()
		t.take()
	}
}
