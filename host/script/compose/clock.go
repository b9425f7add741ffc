package compose

import (
	"context"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

// callClock ends a call after the call's own timeout, or a script after the script's time limit.
// The clock stands still while a question of the call waits for the end of the run, since the
// client has not been asked yet, and while a person decides whether the call may be made. A nil
// callClock is for a call without a timeout.
type callClock struct {
	parent context.Context
	timer  *time.Timer

	mu     sync.Mutex
	left   time.Duration // time of the last start
	from   time.Time
	paused int
}

// timeoutRow limits a call to its own timeout. For a saved tool, one clock counts the time for the
// approval and the time of the run together.
type timeoutRow struct {
	stack.Pass
	r *run
}

// Call implements stack.Handler.
func (w *timeoutRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if t.Timeout == 0 {
		return w.Pass.Call(ctx, t)
	}
	start := startClock
	if !t.Undoes && w.r.began(t) {
		start = startHeld
	}
	limited, clock, stop := start(ctx, t.Limit())
	defer stop()
	t.Set(clockKey, clock)
	return w.Pass.Call(limited, t)
}

// clockKey is the note with the *callClock of a call.
var clockKey = &stack.Key{Name: "clock"}

// clockOf returns the clock of a call; nil for a call without a timeout.
func clockOf(t *stack.Request) *callClock {
	c, _ := t.Note(clockKey).(*callClock)
	return c
}

// ofRun returns the context of the run that makes a call, which does not end with the call's own
// timeout.
func ofRun(ctx context.Context, t *stack.Request) context.Context {
	if c := clockOf(t); c != nil {
		return c.parent
	}
	return ctx
}

// ended returns the error for a call whose context has ended, nil if ctx has not ended. why is the
// message if the run has ended.
func ended(ctx context.Context, t *stack.Request, why string) *abi.CallError {
	switch run := ofRun(ctx, t); {
	case run.Err() != nil:
		return t.Fail(contextFailure(run).Type, why)
	case ctx.Err() != nil:
		return t.Fail(abi.ErrTimeout, t.LimitMessage())
	}
	return nil
}

// startClock returns a context that ends after a time. The caller calls stop when the clock is no
// longer needed.
func startClock(ctx context.Context, after time.Duration) (_ context.Context, c *callClock, stop func()) {
	c = &callClock{parent: ctx, left: after, from: time.Now()}
	ctx, cancel := context.WithCancelCause(ctx)
	over := func() { cancel(context.DeadlineExceeded) }
	if after <= 0 {
		over()
	}
	c.timer = time.AfterFunc(c.left, over)
	return ctx, c, func() {
		c.timer.Stop()
		cancel(context.Canceled)
	}
}

// startHeld is startClock for a run that goes on with a durable run. The clock stands still until
// goLive, so that all compensations are registered when the time ends.
func startHeld(ctx context.Context, after time.Duration) (_ context.Context, c *callClock, stop func()) {
	ctx, c, stop = startClock(ctx, time.Hour) // the clock is stopped at once
	c.pause()
	c.left = after
	return ctx, c, stop
}

// behind counts the scripts of a tree that have not yet passed the record of the run before.
type behind struct {
	mu   sync.Mutex // a leaf
	n    int
	then func() // called when no scripts are left; nil: no function
}

// begin adds a script; over notes that the script has passed the record of the run before.
func (b *behind) begin() (over func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		then := b.then
		if b.n--; b.n > 0 {
			then = nil
		}
		b.mu.Unlock()
		if then != nil {
			then()
		}
	})
}

// after calls f when no scripts are left.
func (b *behind) after(f func()) {
	b.mu.Lock()
	wait := b.n > 0
	if wait {
		b.then = f
	}
	b.mu.Unlock()
	if !wait {
		f()
	}
}

// goLive notes that the script has passed the record of the run before.
func (r *run) goLive() {
	if r.resumed.live {
		return
	}
	r.resumed.live = true
	if r.continues() {
		r.clock.goOn()
		r.passed()
	}
}

func (c *callClock) pause() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused == 1 {
		c.timer.Stop()
		c.left -= time.Since(c.from)
	}
}

func (c *callClock) goOn() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused == 0 {
		c.from = time.Now()
		c.timer.Reset(max(0, c.left))
	}
}

// deciding stops the clocks of a call, of the run of the call, and of the runs that have called
// this run, until goOn is called: a person decides about the call.
func (r *run) deciding(call *callClock) (goOn func()) {
	call.pause()
	run := r.hold()
	for of := r; of != nil; of = of.outer {
		of.waits.begin()
	}
	return func() {
		for of := r; of != nil; of = of.outer {
			of.waits.end()
		}
		run()
		call.goOn()
	}
}

// hold stops the clocks of the run, and of the runs that have called this run, until goOn is
// called.
func (r *run) hold() (goOn func()) {
	var clocks []*callClock
	for of := r; of != nil; of = of.outer {
		clocks = append(clocks, of.clock, of.answers)
	}
	for _, c := range clocks {
		c.pause()
	}
	return func() {
		for _, c := range clocks {
			c.goOn()
		}
	}
}

// stopwatch adds up the time during which at least one of several activities goes on.
type stopwatch struct {
	mu    sync.Mutex // a leaf
	on    int
	since time.Time
	sum   time.Duration
}

func (s *stopwatch) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on++; s.on == 1 {
		s.since = time.Now()
	}
}

func (s *stopwatch) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on--; s.on == 0 {
		s.sum += time.Since(s.since)
	}
}

// total returns the sum.
func (s *stopwatch) total() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on > 0 {
		return s.sum + time.Since(s.since)
	}
	return s.sum
}
