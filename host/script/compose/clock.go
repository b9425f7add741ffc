package compose

import (
	"context"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

// callClock ends a call after the call's own timeout, or a script after its time limit. It
// stands still while a question of the call waits for the end of the run, since the client
// has not been asked yet, and while a person decides whether the call may be made. A nil
// callClock is for a call without a timeout.
type callClock struct {
	timer *time.Timer

	mu     sync.Mutex
	left   time.Duration // when it was last started
	from   time.Time
	paused int
}

// startClock returns a context that ends with the timeout of the call. The caller calls
// stop after the call.
func startCallClock(t *stack.Request, ctx context.Context) (_ context.Context, c *callClock, stop func()) {
	if t.Timeout == 0 {
		return ctx, nil, func() {}
	}
	return startClock(ctx, t.Limit())
}

// startClock returns a context that ends after a time. The caller calls stop when the clock
// is of no use any more.
func startClock(ctx context.Context, after time.Duration) (_ context.Context, c *callClock, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c = &callClock{left: after, from: time.Now()}
	if after <= 0 {
		cancel(context.DeadlineExceeded)
	}
	c.timer = time.AfterFunc(c.left, func() { cancel(context.DeadlineExceeded) })
	return ctx, c, func() {
		c.timer.Stop()
		cancel(context.Canceled)
	}
}

// startHeld is startClock for a run that goes on with a durable one. The clock stands still
// until goLive, so that the end of its time finds all compensations registered.
func startHeld(ctx context.Context, after time.Duration) (_ context.Context, c *callClock, stop func()) {
	ctx, c, stop = startClock(ctx, time.Hour) // it is stopped at once
	c.pause()
	c.left = after
	return ctx, c, stop
}

// startSaved is startClock for the call of a saved tool. If the tool had begun before the process
// of a durable run died, the clock stands still until it has passed what it did then.
func (r *run) startSaved(ctx context.Context, t *stack.Request) (_ context.Context, c *callClock, stop func()) {
	if t.Timeout == 0 || !r.began(t) {
		return startCallClock(t, ctx)
	}
	return startHeld(ctx, t.Limit())
}

// behind counts the scripts of a tree that have not passed what the run before did.
type behind struct {
	mu   sync.Mutex // a leaf
	n    int
	then func() // when there are none; nil: nothing
}

// begin adds a script, which has passed it when over is called.
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

// after calls f when there are no such scripts.
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

// goLive notes that the script has passed what the run before did.
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

// deciding stops the clocks of a call, of the run that makes it, and of those that have called
// that run, until goOn is called: a person decides about the call.
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

// hold stops the clocks of the run, and of those that have called it, until goOn is called.
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

// stopwatch adds up the time during which at least one of several things goes on.
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
