package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// limit ends a call that takes too long: too long without a sign of life, or
// too long in all. See Spec.Timeout and Spec.MaxTimeout.
type limit struct {
	spec   *Spec
	method string
	asking *atomic.Int32 // requests of the server that are being answered
	cancel context.CancelCauseFunc
	most   *time.Timer // nil for no limit

	mu   sync.Mutex
	idle *time.Timer // nil for no limit
	busy bool        // a progress callback runs, and may wait for the client
	over bool        // the call has ended
}

// limited returns call and its context with the limits of the upstream's spec.
// The caller must stop them when the call has ended.
func (u *Upstream) limited(ctx context.Context, call wire.Call) (context.Context, wire.Call, *limit) {
	l := &limit{spec: &u.spec, method: call.Method, asking: &u.asking}
	ctx, l.cancel = context.WithCancelCause(ctx)
	if u.spec.MaxTimeout > 0 {
		l.most = time.AfterFunc(u.spec.MaxTimeout, func() { l.expire(u.spec.MaxTimeout, true) })
	}
	if call.Method == methodTasksResult {
		return ctx, call, l
	}
	l.mu.Lock() // the timer may fire before it is assigned
	l.idle = time.AfterFunc(u.spec.Timeout, l.idled)
	l.mu.Unlock()
	if progress := call.Progress; progress != nil {
		call.Progress = func(params []byte) {
			l.progress(true)
			progress(params)
			l.progress(false)
		}
	}
	return ctx, call, l
}

func (l *limit) stop() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	if l.idle != nil {
		l.idle.Stop()
	}
	if l.most != nil {
		l.most.Stop()
	}
	l.cancel(nil)
}

// progress is told when a progress callback begins and when it has returned.
func (l *limit) progress(begins bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = begins
	if !begins && !l.over { // it may go on after the call: a task
		l.idle.Reset(l.spec.Timeout)
	}
}

// idled runs when the call has been idle for the whole timeout.
func (l *limit) idled() {
	l.mu.Lock()
	busy := l.busy
	if !busy && !l.over && l.asking.Load() > 0 {
		l.idle.Reset(l.spec.Timeout)
		busy = true
	}
	l.mu.Unlock()
	if !busy {
		l.expire(l.spec.Timeout, false)
	}
}

func (l *limit) expire(after time.Duration, most bool) {
	l.cancel(&TimeoutError{Upstream: l.spec.Name, Method: l.method, After: after, Max: most})
}
