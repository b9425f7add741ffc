package sandbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// Options configure a Sandbox. The zero value is usable.
type Options struct {
	// CacheDir is the directory for compiled guests. Processes can share it. It holds
	// native code that is executed, so it must belong to the user and have mode 0700. It is created if absent. If it cannot be used, this is logged, and
	// the sandbox works without it. "" is no cache.
	CacheDir string
	// Log gets warnings; nil is slog.Default().
	Log *slog.Logger
	// Guest is the wasm module to run; nil is the embedded one. Tests pass
	// hand-made ones.
	Guest []byte
	// MaxConcurrent is how many guests may compute at the same time; 0 is
	// DefaultMaxConcurrent(). Runs that wait for a tool do not count.
	MaxConcurrent int
	// MaxQueued is how many more runs may wait for a slot or for tools; 0 is
	// DefaultMaxQueued. Runs beyond that are refused.
	MaxQueued int
	// Budget is the budget for the memory of all runs; nil is no limit.
	Budget *budget.Budget
}

// Caller is the only way in which a script can have effects. A run never calls methods
// of its Caller concurrently.
type Caller interface {
	// CallTools makes the calls of one batch concurrently and returns one
	// answer per call, in order. It must return promptly when ctx ends; then its
	// result is ignored. The calls were only checked for form (valid JSON, an
	// object as arguments), not for permission.
	CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer
	// Undo registers a call that is made if the run fails. It returns what is wrong
	// with the call, nil if nothing is. It must return promptly when ctx ends. The
	// number of these calls counts against Limits.Calls, and their total size
	// against Limits.Arguments.
	Undo(ctx context.Context, call abi.ToolCall) *abi.CallError
	// Commit drops the calls registered with Undo.
	Commit()
	// Log takes one entry of the script's log: valid UTF-8, within
	// Limits.Logs in total. It must not block. If sending the entry to a client may
	// block, Log returns a function that sends it. That is called next, while the
	// run holds no slot.
	Log(level abi.LogLevel, text string) (send func())
	// Progress takes the progress that the script reports. It may wait for the
	// client.
	Progress(p abi.Progress)
}

// Run is one request with its limits.
type Run struct {
	// Request is given to the guest; its Memory is set from Limits.
	Request abi.Request
	Limits  Limits
	// Account limits what the run and others may use together. Nil is an account
	// for this run only, without an owner.
	Account *Account
	Caller  Caller
	// Repeats says that the same script will probably run again. Then it is compiled
	// once, if possible. Otherwise the sandbox finds that out by itself.
	Repeats bool
	// LogFullAdvice is appended to the note that the log is full, such as how to
	// raise the limit; "" for nothing.
	LogFullAdvice string
}

// Limits of one run. A zero field is its default; the limit on wall-clock time
// is the deadline of the run's context.
type Limits struct {
	// Memory is the most linear memory of the instance in bytes. 6 MiB of it are for
	// the guest itself; what that needs beyond them does not count. Rounded down to
	// wasm pages (64 KiB).
	Memory uint64
	// Fuel is how much the run may compute, in units: one for each wasm instruction
	// (rewrite/cost.go has the exact costs), and more for work of the host for the
	// guest, by its size (functions.go). The same request with the same limits and
	// answers always uses the same fuel.
	Fuel uint64
	// Calls is how many tool calls the run may make in all.
	Calls int
	// Arguments is the most bytes of JSON in one batch of calls.
	Arguments int
	// Answer is the most bytes of JSON in one answer of a tool.
	Answer int
	// Result is the most bytes of JSON in the result, or in the script's error.
	Result int
	// Logs is the most bytes of all log entries together; each entry counts 32
	// bytes more than its text. Entries beyond that are dropped, and a last entry
	// says so; the run does not fail.
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

// WithDefaults returns the limits with defaults for fields that are zero, and with
// Memory limited to what can be addressed.
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

// Outcome is the outcome of a run. Its figures are set on failure, too.
type Outcome struct {
	// Result is the JSON of the script's result when it succeeded: one value,
	// valid UTF-8, no duplicate names, at most abi.MaxDepth deep. The caller
	// owns it.
	Result []byte
	// Err is the script's own error. It is also set beside a *LimitError if the guest
	// could still say where the limit was reached.
	Err *abi.Error
	// Memory is the peak of linear memory in bytes, counted like Limits.Memory.
	Memory uint64
	// Fuel is how much of Limits.Fuel was used: the same for the same request, limits
	// and answers, unless the context ended the run.
	Fuel uint64
	// Calls is how many tool calls were made.
	Calls int
	// CompileWait is the time spent waiting for the guest to be compiled, Instantiate
	// the time to make an instance, and Duration that of the script, including its
	// tool calls. Queued is the time spent waiting for a slot or for memory, before
	// the instance is made and, within Duration, later.
	CompileWait, Instantiate, Duration, Queued time.Duration
}
