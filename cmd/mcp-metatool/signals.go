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

// errSignal is what errors.Is finds in the error of something that a signal
// ended.
var errSignal = errors.New("ended by a signal")

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("ended by signal: %v", e.signal) }

func (e *signalError) Is(target error) bool { return target == errSignal }

// exitCode is what shells make of a process that the signal ended.
func (e *signalError) exitCode() int { return 128 + int(e.signal) }

// hangups say what becomes of SIGHUP.
type hangups struct {
	mu   sync.Mutex
	take func() bool // nil: SIGHUP ends the process
}

type hangupsKey struct{}

// onHangup has take called for each SIGHUP until restore is. Where take returns
// false, or is not there, SIGHUP ends the process as SIGTERM does. take must not
// block. It is for contexts of withSignals; others know of no signals.
func onHangup(ctx context.Context, take func() bool) (restore func()) {
	h, ok := ctx.Value(hangupsKey{}).(*hangups)
	if !ok {
		return func() {}
	}
	h.set(take)
	return func() { h.set(nil) }
}

func (h *hangups) set(take func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.take = take
}

func (h *hangups) taken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.take != nil && h.take()
}

// withSignals returns a context that the first SIGINT, SIGTERM or SIGHUP ends,
// with a *signalError as its cause; about SIGHUP see onHangup. The second SIGINT
// or SIGTERM ends the process at once; not the second SIGHUP, since a terminal
// that is lost can bring several.
//
// Writing to a closed pipe must not end it either, since its child processes
// are to be cleaned up: SIGPIPE is taken and dropped, and the write fails. (It
// is not ignored, because child processes would inherit that.)
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
				if s == syscall.SIGHUP && (ctx.Err() != nil || hang.taken()) {
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
