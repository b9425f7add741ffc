package sandbox

import (
	"context"
	"errors"
	"fmt"
)

// ErrClosed is the error of Run after Close.
var ErrClosed = errors.New("sandbox: closed")

// ErrGuest is wrapped by the errors that say why a guest was refused: it does
// not compile, or does not keep the contract of package abi.
var ErrGuest = errors.New("sandbox: guest refused")

// Limit names a limit of a run.
type Limit string

// The limits. The limit on time is the context's and not among them.
const (
	LimitMemory    Limit = "memory"
	LimitFuel      Limit = "fuel"
	LimitRecursion Limit = "recursion"
	LimitCalls     Limit = "calls"
	LimitArguments Limit = "arguments"
	LimitAnswer    Limit = "answer"
	LimitResult    Limit = "result"
	LimitQueue     Limit = "queue" // of all runs together; nothing was run
)

// LimitError says that a run was ended, or could not go on, because of a limit.
type LimitError struct {
	Limit Limit
	// Value is the limit itself: bytes, units of fuel, or a number of calls. 0
	// when it has no figure (LimitRecursion).
	Value uint64
	// Used is how much was used, for LimitTotalMemory: bytes that the run and
	// those that it called had of it.
	Used uint64
	// Setting is the key of the configuration that raises it, such as
	// "execution.max_memory"; "" when none does.
	Setting string
	// Message says what happened.
	Message string
}

func (e *LimitError) Error() string {
	if e.Setting == "" {
		return e.Message + "; this limit is fixed"
	}
	return fmt.Sprintf("%s (raise %s)", e.Message, e.Setting)
}

// TrapError says that the guest was at fault: it trapped, left without a
// response, or passed the host something no honest guest would.
type TrapError struct {
	// Reason says what the guest did.
	Reason string
	// Stderr is the first line the guest's runtime wrote there, if any,
	// bounded and printable.
	Stderr string
}

func (e *TrapError) Error() string {
	if e.Stderr == "" {
		return "sandbox: guest fault: " + e.Reason
	}
	return fmt.Sprintf("sandbox: guest fault: %s (%s)", e.Reason, e.Stderr)
}

// hostError is a fault on this side of the boundary.
type hostError struct {
	function string // the host function it happened in
	problem  string
}

func (e *hostError) Error() string {
	return fmt.Sprintf("sandbox: host function %s: %s", e.function, e.problem)
}

// stopped is the error of a run whose context has ended.
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

// formatBytes gives a size in the largest unit that divides it.
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
