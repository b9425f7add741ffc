package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// Options configure a Sandbox. The zero value is usable.
type Options struct {
	// CacheDir is the directory for compiled guests. Processes can share the directory. The native
	// code in the directory is executed, so the directory must belong to the user and have mode
	// 0700. A missing directory is created. An unusable directory is logged, and the sandbox works
	// without a cache. "" is no cache.
	CacheDir string
	// Log gets warnings; nil is slog.Default().
	Log *slog.Logger
	// Guest is the wasm module to run; nil is the embedded guest. Tests pass hand-made modules.
	Guest []byte
	// MaxConcurrent is the number of guests that may compute at the same time; 0 is
	// DefaultMaxConcurrent(). Runs that wait for a tool do not count.
	MaxConcurrent int
	// MaxQueued is the number of further runs that may wait for a slot or for tools; 0 is
	// DefaultMaxQueued. More runs are refused.
	MaxQueued int
	// Budget is the budget for the memory of all runs; nil is no limit.
	Budget *budget.Budget
}

// Caller is the only way in which a script can have effects. A run never calls methods of a Caller
// concurrently.
type Caller interface {
	// CallTools makes the calls of a batch concurrently and returns one answer per call, in order.
	// When ctx ends, CallTools must return promptly; then the result is ignored. The calls were
	// only checked for form (valid JSON, an object as arguments), not for permission.
	CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer
	// Undo registers a call that is made if the run fails. Undo returns the mistake in the call,
	// nil for none. When ctx ends, Undo must return promptly. The number of these calls counts
	// against Limits.Calls, and their total size against Limits.Arguments.
	Undo(ctx context.Context, call abi.ToolCall) *abi.CallError
	// Commit drops the calls registered with Undo.
	Commit()
	// Log takes an entry of the script's log: valid UTF-8, within Limits.Logs in total. Log must
	// not block. If sending the entry to a client may block, Log returns a function that sends the
	// entry. This function is called next, while the run holds no slot.
	Log(level abi.LogLevel, text string) (send func())
	// Progress takes the progress that the script reports. Progress may wait for the client.
	Progress(p abi.Progress)
}

// Run is a request with limits.
type Run struct {
	// Request is given to the guest; Memory in Request is set from Limits.
	Request abi.Request
	Limits  Limits
	// Account limits the shared use of the run and others. Nil is an account for this run only,
	// without an owner.
	Account *Account
	Caller  Caller
	// Repeats says that the same script will probably run again. Then the script is compiled once,
	// if possible. Otherwise the sandbox discovers repetitions.
	Repeats bool
	// LogFullAdvice is appended to the note that the log is full, such as how to raise the limit;
	// "" for nothing.
	LogFullAdvice string
}

// Limits of a run. A zero field is the default; the limit on wall-clock time is the deadline of the
// run's context.
type Limits struct {
	// Memory is the largest linear memory of the instance in bytes. 6 MiB are for the guest itself;
	// memory that the guest needs beyond them does not count. Rounded down to wasm pages (64 KiB).
	Memory uint64
	// Fuel is the work that the run may do, in units: one for each wasm instruction
	// (rewrite/cost.go has the exact costs), and more for work of the host for the guest, by size
	// (functions.go). The same request with the same limits and answers always uses the same fuel.
	Fuel uint64
	// Calls is how many tool calls the run may make in all.
	Calls int
	// Arguments is the largest JSON of a batch of calls, in bytes.
	Arguments int
	// Answer is the largest JSON of an answer of a tool, in bytes.
	Answer int
	// Result is the most bytes of JSON in the result, or in the script's error.
	Result int
	// Logs is the largest total of all log entries, in bytes; each entry counts 32 bytes more than
	// the text. Further entries are dropped, and a last entry says so; the run does not fail.
	Logs int
}

// The defaults of Limits.
const (
	DefaultMemory    = 128 << 20
	DefaultFuel      = 10_000_000_000 // a few seconds
	DefaultCalls     = 1000
	DefaultArguments = 16 << 20
	DefaultAnswer    = 16 << 20
	DefaultResult    = 16 << 20
	DefaultLogs      = 1 << 20
)

// WithDefaults returns the limits with defaults for zero fields, and with Memory limited to the
// addressable size.
func (l Limits) WithDefaults() Limits {
	if l.Memory == 0 {
		l.Memory = DefaultMemory
	}
	l.Memory = min(l.Memory, maxMemory) / pageSize * pageSize
	if l.Fuel == 0 {
		l.Fuel = DefaultFuel
	}
	l.Fuel = min(l.Fuel, maxFuel)
	for _, f := range []struct {
		field    *int
		fallback int
	}{
		{&l.Calls, DefaultCalls}, {&l.Arguments, DefaultArguments}, {&l.Answer, DefaultAnswer},
		{&l.Result, DefaultResult}, {&l.Logs, DefaultLogs},
	} {
		if *f.field == 0 {
			*f.field = f.fallback
		}
	}
	return l
}

// Outcome is the outcome of a run. The figures are set on failure, too.
type Outcome struct {
	// Result is the JSON of the script's result on success: a value in valid UTF-8, without
	// duplicate names, at most abi.MaxDepth deep. The caller owns Result.
	Result []byte
	// Err is the script's own error. Err is also set together with a *LimitError if the guest could
	// still say where the limit was reached.
	Err *abi.Error
	// Memory is the peak of linear memory in bytes, counted like Limits.Memory.
	Memory uint64
	// Fuel is how much of Limits.Fuel was used: the same for the same request, limits
	// and answers, unless the context ended the run.
	Fuel uint64
	// Calls is how many tool calls were made.
	Calls int
	// CompileWait is the time spent waiting for the guest to be compiled, Instantiate the time to
	// make an instance, and Duration the time of the script, including tool calls. Queued is the
	// time spent waiting for a slot or for memory, before the instance is made and, within
	// Duration, later.
	CompileWait, Instantiate, Duration, Queued time.Duration
}

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
