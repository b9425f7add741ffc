package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// limit ends a call that takes too long: too long without a sign of life, or
// too long in all. See Spec.Timeout and Spec.MaxTimeout. A nil limit is none.
type limit struct {
	spec   *Spec
	method string
	asking *atomic.Int32           // requests of the server that are being answered
	cancel context.CancelCauseFunc // ends the call
	begun  time.Time
	most   time.Time // when the call must have ended; zero for never

	mu    sync.Mutex
	timer *time.Timer // nil for no limit, and when the call has ended
	busy  bool        // a progress callback runs, and may wait for the client
}

// limitOf is how long a call of a method may take. The result of a task may take
// as long as the task does.
func (u *Upstream) limitOf(method string) rpc.Limit {
	limit := rpc.Limit{Idle: u.spec.Timeout, Max: u.spec.MaxTimeout}
	if method == protocol.MethodTasksResult {
		limit.Idle = 0
	}
	return limit
}

// newLimit returns call with the limits of the upstream's spec, which do not
// count yet.
func (u *Upstream) newLimit(call wire.Call) (wire.Call, *limit) {
	l := &limit{spec: &u.spec, method: call.Method, asking: &u.answering, begun: time.Now()}
	if u.spec.MaxTimeout > 0 {
		l.most = l.begun.Add(u.spec.MaxTimeout)
	}
	if progress := call.Progress; progress != nil {
		call.Progress = func(params []byte) {
			l.progress(true)
			progress(params)
			l.progress(false)
		}
	}
	return call, l
}

// limited returns call and its context with the limits of the upstream's spec.
// The caller must stop them when the call has ended.
func (u *Upstream) limited(ctx context.Context, call wire.Call) (context.Context, wire.Call, *limit) {
	call, l := u.newLimit(call)
	ctx, l.cancel = context.WithCancelCause(ctx)
	l.mu.Lock() // the timer may fire before it is assigned
	defer l.mu.Unlock()
	if wait, ok := l.next(); ok {
		l.timer = time.AfterFunc(wait, func() {
			if err := l.expired(); err != nil {
				l.cancel(err)
			}
		})
	}
	return ctx, call, l
}

// next is the time until the limit has to be looked at again, from a sign of
// life on.
func (l *limit) next() (wait time.Duration, ok bool) {
	wait = l.spec.Timeout
	if l.method == protocol.MethodTasksResult {
		if l.most.IsZero() {
			return 0, false
		}
		return time.Until(l.most), true
	}
	if !l.most.IsZero() {
		wait = min(wait, time.Until(l.most))
	}
	return wait, true
}

func (l *limit) stop() {
	l.mu.Lock()
	timer := l.timer
	l.timer = nil
	l.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	l.cancel(nil)
}

// progress is told when a progress callback begins and when it has returned.
func (l *limit) progress(begins bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = begins
	if !begins {
		l.again()
	}
}

// again starts the timer for the next time. The caller holds l.mu.
func (l *limit) again() {
	if l.timer == nil { // progress may go on after the call: a task
		return
	}
	if wait, ok := l.next(); ok {
		l.timer.Reset(wait)
	}
}

// expired is the error of a call whose time is up, when its timer has fired.
func (l *limit) expired() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		return nil
	}
	err := l.verdict()
	if err == nil {
		l.again()
	}
	return err
}

// verdict is the error of a call that has had no sign of life for so long; nil
// if it may go on. The caller holds l.mu if there is progress.
func (l *limit) verdict() error {
	switch {
	case !l.most.IsZero() && !time.Now().Before(l.most):
		return &TimeoutError{Upstream: l.spec.Name, Method: l.method, After: l.spec.MaxTimeout, Max: true}
	case l.busy || l.asking.Load() > 0:
		return nil
	}
	return &TimeoutError{Upstream: l.spec.Name, Method: l.method, After: l.spec.Timeout}
}
