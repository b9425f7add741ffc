package sandbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/budget"
)

// Options say how a Sandbox works. The zero value is usable.
type Options struct {
	// CacheDir keeps compiled guests between processes. It holds native code
	// that is executed, so it must be a directory of mode 0700 that belongs to
	// the user; it is created when absent. When it cannot be had, that is
	// logged and the sandbox goes without. "" is no cache.
	CacheDir string
	// Log gets warnings; nil is slog.Default().
	Log *slog.Logger
	// Guest is the wasm module to run; nil is the embedded one. Tests pass
	// hand-made ones.
	Guest []byte
	// MaxConcurrent is how many guests may compute at the same time; 0 is
	// DefaultMaxConcurrent(). Runs that wait for a tool do not count.
	MaxConcurrent int
	// MaxQueued is how many runs there may be beside those: waiting for their
	// turn, or for tools; 0 is DefaultMaxQueued. What is over is refused.
	MaxQueued int
	// Budget is what the memory of all runs is taken from; nil: it has no bound.
	Budget *budget.Budget
}

// Caller is the world of a script: everything it can reach. Methods of one
// Caller are never called concurrently by one run.
type Caller interface {
	// CallTools makes the calls of one batch concurrently and returns one
	// answer per call, in order. It must return promptly when ctx ends; what
	// it returns then is not looked at. The calls are checked for form only
	// (valid JSON, an object as arguments), not for permission.
	CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer
	// Undo takes a call that is to be made if the run fails, and says what is
	// wrong with it, nil for nothing. It must return promptly when ctx ends.
	// Their number counts against Limits.Calls, and their size, all together,
	// against Limits.Arguments.
	Undo(ctx context.Context, call abi.ToolCall) *abi.CallError
	// Commit drops the calls that Undo has taken.
	Commit()
	// Log takes one entry of the script's log: valid UTF-8, within
	// Limits.Logs in sum. It must not wait for anybody. If sending the entry to
	// a client may have to wait, Log returns a function that sends it. That is
	// called next, while the run holds no slot.
	Log(level abi.LogLevel, text string) (send func())
	// Progress takes the progress that the script reports. It may wait for the
	// client.
	Progress(p abi.Progress)
}

// Run is one request and what it may use.
type Run struct {
	// Request is handed to the guest; its Memory is set from Limits.
	Request abi.Request
	Limits  Limits
	// Account is what the run and others may use together: what the run uses
	// counts there too. Nil is one of its own, of nobody.
	Account *Account
	Caller  Caller
}

// Limits of one run. A zero field is its default; the limit on wall-clock time
// is the deadline of the run's context.
type Limits struct {
	// Memory is the most linear memory of the instance in bytes, the guest's
	// own runtime included (about 5 MiB). Rounded down to wasm pages (64 KiB).
	Memory uint64
	// Fuel is how much the run may compute, in units of the meter: one for
	// each wasm instruction (rewrite/cost.go has the exact price of each), and
	// what the host does for the guest by its size (functions.go). The same
	// request with the same limits and answers uses the same fuel, always.
	Fuel uint64
	// Calls is how many tool calls the run may make in all.
	Calls int
	// Arguments is the most bytes of JSON in one batch of calls.
	Arguments int
	// Answer is the most bytes of JSON in one answer of a tool.
	Answer int
	// Result is the most bytes of JSON in the result, or in the script's error.
	Result int
	// Logs is the most bytes of all log entries together; each entry counts
	// for 32 bytes more than its text. What is over is not kept
	// and does not fail the run; one last entry says so.
	Logs int
}

// The defaults of Limits.
const (
	DefaultMemory    = 128 << 20
	DefaultFuel      = 10_000_000_000 // some seconds
	DefaultCalls     = 1000
	DefaultArguments = 16 << 20
	DefaultAnswer    = 16 << 20
	DefaultResult    = 16 << 20
	DefaultLogs      = 1 << 20
)

// WithDefaults fills what is zero and cuts Memory to what can be addressed.
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

// Outcome is how a run went. Its figures are filled on failure too.
type Outcome struct {
	// Result is the JSON of the script's result when it succeeded: one value,
	// valid UTF-8, no duplicate names, at most abi.MaxDepth deep. The caller
	// owns it.
	Result []byte
	// Err is the script's own error. It is also set beside a *LimitError when
	// the guest still said where the limit was met.
	Err *abi.Error
	// Memory is the peak of linear memory in bytes.
	Memory uint64
	// Fuel is how much was used, of Limits.Fuel: the same for the same
	// request, limits and answers, unless the context ended the run.
	Fuel uint64
	// Calls is how many tool calls were made.
	Calls int
	// CompileWait is the time spent waiting for the guest to be compiled,
	// Instantiate that of making an instance, Duration that of
	// the script, its tool calls included. Queued is the time spent waiting for
	// a slot or for memory: before the instance is made, and within Duration after calls.
	CompileWait, Instantiate, Duration, Queued time.Duration
}
