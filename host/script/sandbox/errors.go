package sandbox

import (
	"context"
	"errors"
	"fmt"
)

// ErrClosed is returned by Run after Close.
var ErrClosed = errors.New("sandbox: closed")

// ErrGuest is wrapped by errors about a refused guest, which does not compile or does not follow
// package abi.
var ErrGuest = errors.New("sandbox: guest refused")

// Limit names a limit of a run.
type Limit string

// The limits. The limit on time is the deadline of the context.
const (
	LimitMemory    Limit = "memory"
	LimitFuel      Limit = "fuel"
	LimitRecursion Limit = "recursion"
	LimitCalls     Limit = "calls"
	LimitArguments Limit = "arguments"
	LimitAnswer    Limit = "answer"
	LimitResult    Limit = "result"
	LimitQueue     Limit = "queue" // the number of runs; the run did not start
)

// LimitError says that a run was ended, or could not go on, because of a limit.
type LimitError struct {
	Limit Limit
	// Value is the limit: bytes, units of fuel, or a number of calls; 0 for
	// LimitRecursion, which has no figure.
	Value uint64
	// Used is set for LimitTotalMemory: the bytes used by the run and by the runs that the run
	// called.
	Used uint64
	// Message says how the limit was reached.
	Message string
}

func (e *LimitError) Error() string { return e.Message }

// LimitName returns the name of the limit in errors. Package limits has advice about each limit.
func (e *LimitError) LimitName() string { return string(e.Limit) }

// TrapError says that the guest failed: the guest trapped, ended without a response, or broke the
// rules of package abi.
type TrapError struct {
	// Reason says how the guest failed.
	Reason string
	// Stderr is the first line of the guest's runtime on standard error, if any, printable and of
	// limited length.
	Stderr string
}

func (e *TrapError) Error() string {
	if e.Stderr == "" {
		return "sandbox: guest fault: " + e.Reason
	}
	return fmt.Sprintf("sandbox: guest fault: %s (%s)", e.Reason, e.Stderr)
}

// hostError is an error for a bug in the host.
type hostError struct {
	function string // the name of the host function
	problem  string
}

func (e *hostError) Error() string {
	return fmt.Sprintf("sandbox: host function %s: %s", e.function, e.problem)
}

// stopped returns the error for a run whose context has ended.
func stopped(ctx context.Context, name string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if limit := Exhausted(cause, name); limit != nil {
		return limit
	}
	if errors.Is(cause, err) {
		return fmt.Errorf("script %q stopped: %w", name, cause)
	}
	return fmt.Errorf("script %q stopped: %w (%w)", name, cause, err)
}

// formatBytes formats a size in the largest unit that divides n.
func formatBytes(n uint64) string {
	switch {
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
