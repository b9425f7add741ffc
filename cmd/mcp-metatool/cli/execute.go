// Package cli holds the parts that all groups of verbs share: running the root command, errors and
// exit codes, flags, help, completion, questions to the user, and output for a terminal.
//
// Execute runs the program. Settings has the flags of verbs that read the configuration. Output goes
// through Table, WriteJSON or Raw, which keep text from servers from controlling the terminal.
//
// Standard output carries protocol messages (serve) or the answer (all other verbs). Everything else
// goes to standard error. Exit codes: 0 success, 1 a check or a tool failed, 2 wrong usage or
// configuration, 128+n ended by signal n (serve shuts down orderly, with 0).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Commands returns the verb version.
func Commands() []*cobra.Command {
	return []*cobra.Command{versionCommand()}
}

const (
	ExitFailed = 1
	ExitUsage  = 2
)

// ExitError is an error with an exit code. A nil Err means that all messages have been printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit returns an error with an exit code. A nil err means that all messages have been printed.
func Exit(code int, err error) error { return &ExitError{code, err} }

// Failed returns the error of a failed check or tool. A nil err means that all messages have been
// printed.
func Failed(err error) error { return &ExitError{ExitFailed, err} }

// Usage returns the error of wrong usage or of a mistake in the configuration.
func Usage(err error) error { return &ExitError{ExitUsage, err} }

// Execute runs the command with the arguments and returns the exit code.
func Execute(root *cobra.Command, args []string) int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	ctx, doing := withDoing(ctx)
	stdout, stderr, flush := screens(os.Stdout, os.Stderr)
	defer flush()
	started := false // if not, an error is about wrong usage
	looks := AddLooks(root, stdout, stderr)
	looks.apply() // for errors before the flags are known
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.ValidateFlagGroups(); err != nil {
			return err
		}
		started = true
		looks.apply()
		return nil
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	said := sayWhatEnds(ctx, stderr, doing)
	cmd, err := root.ExecuteContextC(ctx)
	said()
	if err == nil {
		return 0
	}
	if !started {
		Complain(stderr, err)
		fmt.Fprintf(stderr, "Usage: %s\nMore: %s --help\n", cmd.UseLine(), cmd.CommandPath())
		return ExitUsage
	}
	var exit *ExitError
	var killed *signalError
	switch {
	case errors.As(err, &exit):
		if exit.Err != nil {
			Complain(stderr, exit.Err)
		}
		return exit.Code
	case errors.As(err, &killed), errors.As(context.Cause(ctx), &killed): // the signal is the cause of any failure
		if what := doing.now(); what != "" {
			Complain(stderr, fmt.Errorf("cancelled: %s", what))
		}
		return killed.exitCode()
	}
	Complain(stderr, err)
	return ExitFailed
}

// Complain writes an error. Each line begins with the program's name.
func Complain(w io.Writer, err error) {
	for line := range strings.SplitSeq(display.Text(err.Error()), "\n") {
		fmt.Fprintf(Raw(w), "%s %s\n", Paint(w, display.Bad, "mcp-metatool:"), line)
	}
}

// sayWhatEnds names the cancelled work as soon as a signal ends ctx, since the end can take some
// time. The caller must call stop.
func sayWhatEnds(ctx context.Context, stderr *Screen, doing *doing) (stop func()) {
	said := make(chan struct{})
	pending := context.AfterFunc(ctx, func() {
		defer close(said)
		if what := doing.now(); what != "" && stderr.guard != nil {
			fmt.Fprintf(stderr, "cancelling: %s (Ctrl-C again ends at once)\n", display.Text(what))
		}
	})
	return func() {
		if !pending() {
			<-said
		}
	}
}

// ErrSignal matches, with errors.Is, every error caused by a signal.
var ErrSignal = errors.New("ended by a signal")

// signalError is the cause of a context that a signal has ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("ended by signal: %v", e.signal) }

func (e *signalError) Is(target error) bool { return target == ErrSignal }

// exitCode returns the exit code that shells report for a process ended by the signal.
func (e *signalError) exitCode() int { return 128 + int(e.signal) }

// hangups holds the handler of SIGHUP.
type hangups struct {
	mu     sync.Mutex
	handle func() bool // nil: SIGHUP ends the process
}

type hangupsKey struct{}

// OnHangup calls handle for each SIGHUP until restore is called. If handle returns false,
// or is nil, SIGHUP ends the process as SIGTERM does. handle must not block. OnHangup does
// nothing unless ctx is of withSignals.
func OnHangup(ctx context.Context, handle func() bool) (restore func()) {
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

// handled calls the handler, and reports whether the handler took care of a SIGHUP.
func (h *hangups) handled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.handle != nil && h.handle()
}

// sameSignal is the longest time between a signal and its repetition. People who press Ctrl-C twice
// are slower.
const sameSignal = 100 * time.Millisecond

// received is a signal that has arrived. The zero value is none.
type received struct {
	signal os.Signal
	at     time.Time
}

// isRepeatedBy reports whether a signal that arrives now is only a repetition.
func (r received) isRepeatedBy(s os.Signal, now time.Time) bool {
	return r.signal == s && now.Sub(r.at) < sameSignal
}

// withSignals returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. The cause of
// the context is then a *signalError. For SIGHUP see OnHangup. A second SIGINT or SIGTERM ends the
// process at once. A second SIGHUP does not, since the loss of a terminal can cause several. An
// immediate repetition counts as the same signal: Ctrl-C reaches npx and this process, and npx
// passes the signal on; timeout(1) and systemd signal a process and its group.
//
// Writing to a closed pipe must not end the process either, since the process has to clean up its
// child processes. So SIGPIPE is caught and dropped, and the write fails. SIGPIPE is not ignored,
// because child processes would inherit the disposition.
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
