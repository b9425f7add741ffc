package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
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

// withSignals returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. Its
// cause is then a *signalError. For SIGHUP see onHangup. A second SIGINT or SIGTERM ends
// the process at once. A second SIGHUP does not, since the loss of a terminal can cause
// several.
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
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGHUP && (ctx.Err() != nil || hang.handled()) {
					continue
				}
				reason := &signalError{s.(syscall.Signal)}
				if ctx.Err() != nil {
					os.Exit(reason.exitCode())
				}
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
