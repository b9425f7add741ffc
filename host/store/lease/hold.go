package lease

import (
	"context"
	"errors"
	"time"
)

// Hold renews the lease until stop is called, and returns a context that ends before the lease
// does: when somebody else has it, with ErrLost, or when it could not be renewed in time. stop
// waits for the last renewal; it does not release the lease.
func (l *Lease) Hold(ctx context.Context) (held context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.hold(ctx, cancel)
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-ended
	}
}

// hold renews the lease three times before it ends.
func (l *Lease) hold(ctx context.Context, cancel context.CancelCauseFunc) {
	every := l.leases.opts.TTL / 4
	for {
		if !wait(ctx, every) {
			return
		}
		left := l.Until().Sub(l.leases.opts.Now())
		if left <= 0 {
			cancel(ErrLost)
			return
		}
		attempt, done := context.WithTimeoutCause(ctx, left, ErrLost)
		err := l.Renew(attempt)
		done()
		if errors.Is(err, ErrLost) {
			cancel(ErrLost)
			return
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
