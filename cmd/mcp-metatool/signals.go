package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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

// withSignals returns a context that the first SIGINT, SIGTERM or SIGHUP ends,
// with a *signalError as its cause. The second one ends the process at once.
//
// Writing to a closed pipe must not end it either, since its child processes
// are to be cleaned up: SIGPIPE is taken and dropped, and the write fails. (It
// is not ignored, because child processes would inherit that.)
func withSignals(parent context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
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
