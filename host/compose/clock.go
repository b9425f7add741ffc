package compose

import (
	"context"
	"sync"
	"time"
)

// callClock ends a call after the call's own timeout. It stands still while a question of
// the call waits for the end of the run: the client has not been asked yet. A nil
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
func (t *target) startClock(ctx context.Context) (_ context.Context, c *callClock, stop func()) {
	if t.Timeout == 0 {
		return ctx, nil, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c = &callClock{left: t.timeout(), from: time.Now()}
	c.timer = time.AfterFunc(c.left, func() { cancel(context.DeadlineExceeded) })
	return ctx, c, func() {
		c.timer.Stop()
		cancel(context.Canceled)
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
