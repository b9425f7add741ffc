package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// errSignal matches, with errors.Is, every error that was caused by a signal.
var errSignal = errors.New("ended by a signal")

// signalError is the cause of a context that was ended by a signal.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("ended by signal: %v", e.signal) }

func (e *signalError) Is(target error) bool { return target == errSignal }

// exitCode returns the exit code that shells report for a process ended by the signal.
func (e *signalError) exitCode() int { return 128 + int(e.signal) }

// hangups holds the handler of SIGHUP.
type hangups struct {
	mu     sync.Mutex
	handle func() bool // nil: SIGHUP ends the process
}

type hangupsKey struct{}

// onHangup calls handle for each SIGHUP until restore is called. If handle returns false,
// or is nil, SIGHUP ends the process as SIGTERM does. handle must not block. onHangup does
// nothing unless ctx is of withSignals.
func onHangup(ctx context.Context, handle func() bool) (restore func()) {
	h, ok := ctx.Value(hangupsKey{}).(*hangups)
	if !ok {
		return func() {}
	}
	h.set(handle)
	return func() { h.set(nil) }
}

func (h *hangups) set(handle func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handle = handle
}

// handled calls the handler, and reports whether it has handled a SIGHUP.
func (h *hangups) handled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.handle != nil && h.handle()
}

// sameSignal is how soon a signal must come again to be taken for the same one. People who
// press Ctrl-C twice are slower.
const sameSignal = 100 * time.Millisecond

// received is a signal that has come. The zero value is none.
type received struct {
	signal os.Signal
	at     time.Time
}

// isRepeatedBy reports whether a signal that comes now is the same one once more.
func (r received) isRepeatedBy(s os.Signal, now time.Time) bool {
	return r.signal == s && now.Sub(r.at) < sameSignal
}

// withSignals returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. Its
// cause is then a *signalError. For SIGHUP see onHangup. A second SIGINT or SIGTERM ends
// the process at once. A second SIGHUP does not, since the loss of a terminal can cause
// several. A signal that is repeated at once counts as the same: Ctrl-C reaches npx and
// this process, and npx passes it on; timeout(1) and systemd signal a process and its
// group.
//
// Writing to a closed pipe must not end the process either, since it has to clean up its
// child processes. So SIGPIPE is caught and dropped, and the write fails. SIGPIPE is not
// ignored, because child processes would inherit that.
func withSignals(parent context.Context) (_ context.Context, stop func()) {
	hang := &hangups{}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, hangupsKey{}, hang))
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	ending := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		ending = append(ending, syscall.SIGHUP)
	}
	signal.Notify(signals, ending...)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var first received
		for {
			select {
			case s := <-signals:
				now := time.Now()
				if s == syscall.SIGHUP && (ctx.Err() != nil || hang.handled()) || first.isRepeatedBy(s, now) {
					continue
				}
				reason := &signalError{s.(syscall.Signal)}
				if ctx.Err() != nil {
					os.Exit(reason.exitCode())
				}
				first = received{s, now}
				cancel(reason)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel(nil)
	}
}
