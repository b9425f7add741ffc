// Package limits is the table of all limits that a user can reach: name, configuration key, default
// and bounds, class of the error, and remedy. Package config reads, checks and describes limits
// with this table. Packages that enforce a limit (sandbox, wire, budget) know only the name: their
// errors have a method LimitName, and code that shows such an error adds the remedy with [Explain]
// or [Find].
//
// To add a limit, add a row to the table and the field for the value in package config (limits.go
// there). The tests of config and of the documents fail until both are done.
package limits

import (
	"errors"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Unit is the unit of a limit.
type Unit uint8

const (
	Count    Unit = iota // a number of things; for fuel, of WebAssembly instructions
	Bytes                // written as sizes: "64MB"
	Duration             // nanoseconds, written as durations: "30s"
)

// Limit is a row of the table. Rows do not change.
type Limit struct {
	// Name is the name of the limit in errors, such as "memory"; "" if no error names the limit.
	Name string
	// Section is the table of the configuration with the key, such as "execution"; "" for the top
	// level. Key is the name of the key in TOML; "" for a fixed limit.
	Section, Key string
	Unit         Unit
	// Default is the value if the key is not set, or the value of a fixed limit. 0 if Derived is
	// set.
	Default int64
	Derived string
	// Least and Most bound the configured value.
	Least, Most int64
	// Class is the class of the error in a script; "" if a script does not get an error.
	Class abi.ErrorType
	// Advice is a remedy other than a higher limit, for example "try again later".
	Advice string
}

// Setting returns the key with its section, for example "execution.max_memory"; "" for a fixed
// limit.
func (l *Limit) Setting() string {
	if l.Section == "" || l.Key == "" {
		return l.Key
	}
	return l.Section + "." + l.Key
}

// Remedy returns the remedy for a reached limit, for example "raise execution.max_memory", or "this
// limit is fixed".
func (l *Limit) Remedy() string {
	switch {
	case l.Key == "" && l.Advice == "":
		return "this limit is fixed"
	case l.Key == "":
		return l.Advice
	case l.Advice == "":
		return "raise " + l.Setting()
	}
	return l.Advice + ", or raise " + l.Setting()
}

// Format returns a value of the limit for people: "128MiB", "30s", "1000".
func (l *Limit) Format(value int64) string {
	switch l.Unit {
	case Bytes:
		return units.FormatSize(uint64(value))
	case Duration:
		return units.FormatDuration(time.Duration(value))
	}
	return strconv.FormatInt(value, 10)
}

// Find returns the limit with this name in errors, or nil.
func Find(name string) *Limit {
	for _, l := range All {
		if l.Name == name && name != "" {
			return l
		}
	}
	return nil
}

// Reached is implemented by errors about a reached limit. LimitName returns a Name in the table.
type Reached interface {
	error
	LimitName() string
}

// Explain returns the text of an error, followed by the remedy if a limit was reached:
// "message is larger than 1024 bytes (raise max_message)".
func Explain(err error) string {
	var reached Reached
	if errors.As(err, &reached) {
		switch l := Find(reached.LimitName()); {
		case l != nil && l.Key == "":
			return err.Error() + "; " + l.Remedy()
		case l != nil:
			return err.Error() + " (" + l.Remedy() + ")"
		}
	}
	return err.Error()
}

// All contains all limits in the order of the table.
var All []*Limit

func row(l Limit) *Limit {
	All = append(All, &l)
	return &l
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	millisecond = int64(time.Millisecond)
	second      = int64(time.Second)
	minute      = int64(time.Minute)
	hour        = int64(time.Hour)
	day         = 24 * hour
)

// The limits at the top level of the configuration.
var (
	StartupWait = row(Limit{Key: "startup_wait", Unit: Duration, Default: 5 * second, Least: 0, Most: hour})
	InputTime   = row(Limit{Key: "input_timeout", Unit: Duration, Default: 10 * minute, Least: millisecond, Most: day})
	Message     = row(Limit{Name: "message", Key: "max_message", Unit: Bytes, Default: 64 * mib, Least: kib, Most: gib})
	List        = row(Limit{Name: "list", Key: "max_list", Unit: Bytes, Default: 32 * mib, Least: 64 * kib, Most: gib})
)

// The limits of a composite call.
var (
	Time = row(Limit{Name: "time", Section: "execution", Key: "timeout", Unit: Duration,
		Default: 30 * second, Least: millisecond, Most: day, Class: abi.ErrTimeout})
	// Memory: at least the need of the guest itself; at most the address space of wasm32.
	Memory = row(Limit{Name: "memory", Section: "execution", Key: "max_memory", Unit: Bytes,
		Default: 128 * mib, Least: 16 * mib, Most: 4 * gib, Class: abi.ErrResource})
	// Fuel: at least the need of a trivial script; at most enough for some days.
	Fuel = row(Limit{Name: "fuel", Section: "execution", Key: "max_fuel",
		Default: 10_000_000_000, Least: 10_000_000, Most: 1_000_000_000_000_000, Class: abi.ErrResource})
	Calls = row(Limit{Name: "calls", Section: "execution", Key: "max_calls",
		Default: 1000, Least: 1, Most: 1_000_000, Class: abi.ErrResource})
	Arguments = row(Limit{Name: "arguments", Section: "execution", Key: "max_arguments", Unit: Bytes,
		Default: 16 * mib, Least: kib, Most: abi.MaxMessage, Class: abi.ErrResource})
	Answer = row(Limit{Name: "answer", Section: "execution", Key: "max_answer", Unit: Bytes,
		Default: 16 * mib, Least: kib, Most: abi.MaxMessage, Class: abi.ErrResource})
	Result = row(Limit{Name: "result", Section: "execution", Key: "max_result", Unit: Bytes,
		Default: 16 * mib, Least: kib, Most: abi.MaxMessage, Class: abi.ErrResource})
	Logs = row(Limit{Name: "logs", Section: "execution", Key: "max_logs", Unit: Bytes,
		Default: mib, Least: kib, Most: abi.MaxMessage})
	Parallel = row(Limit{Section: "execution", Key: "max_parallel",
		Default: 16, Least: 1, Most: abi.MaxBatch})
	UndoTime = row(Limit{Name: "undo_time", Section: "execution", Key: "undo_timeout", Unit: Duration,
		Default: 10 * second, Least: millisecond, Most: hour, Class: abi.ErrTimeout})
	TaskAfter = row(Limit{Section: "execution", Key: "task_after", Unit: Duration,
		Default: 10 * second, Least: 0, Most: day})

	Recursion = row(Limit{Name: abi.LimitRecursion, Default: abi.MaxFrames, Class: abi.ErrResource})
	Chain     = row(Limit{Name: abi.LimitChain, Default: abi.MaxChain, Class: abi.ErrResource})
	Depth     = row(Limit{Name: abi.LimitDepth, Default: abi.MaxDepth, Class: abi.ErrRuntime})
)

// The limits of all composite calls together, and of all messages.
var (
	Concurrent = row(Limit{Section: "execution", Key: "max_concurrent",
		Derived: "two per CPU, at least 4", Least: 1, Most: 10_000})
	Queue = row(Limit{Name: "queue", Section: "execution", Key: "max_queued",
		Default: 10_000, Least: 1, Most: 1_000_000, Class: abi.ErrResource, Advice: "call again later"})
	TotalMemory = row(Limit{Name: "total_memory", Section: "execution", Key: "max_total_memory", Unit: Bytes,
		Derived: "half of the machine's memory, or of the container's", Least: 32 * mib, Most: 1 << 20 * gib, Class: abi.ErrResource})
)

// The limits of the journal.
var (
	JournalFile = row(Limit{Section: "journal", Key: "max_size", Unit: Bytes,
		Default: 64 * mib, Least: 64 * kib, Most: 1024 * gib})
	JournalTotal = row(Limit{Section: "journal", Key: "max_total", Unit: Bytes,
		Default: gib, Least: 64 * kib, Most: 1 << 20 * gib})
	JournalAge = row(Limit{Section: "journal", Key: "max_age", Unit: Duration,
		Default: 30 * day, Least: hour, Most: 100 * 365 * day})
)

// The limits for an upstream.
var (
	RequestTime = row(Limit{Name: "request_time", Section: "upstream", Key: "timeout", Unit: Duration,
		Default: minute, Least: millisecond, Most: day})
	// RequestTotalTime: the default is RequestTime if longer.
	RequestTotalTime = row(Limit{Name: "request_total_time", Section: "upstream", Key: "max_timeout", Unit: Duration,
		Default: hour, Least: millisecond, Most: day})
	ProbeTime = row(Limit{Section: "upstream.probe", Key: "timeout", Unit: Duration,
		Default: 10 * second, Least: millisecond, Most: 10 * minute})
)

// The limits for clients over HTTP.
var (
	SessionTTL = row(Limit{Section: "http", Key: "session_ttl", Unit: Duration,
		Default: 30 * minute, Least: second, Most: 7 * day})
	UnusedTTL = row(Limit{Section: "http", Key: "unused_ttl", Unit: Duration,
		Default: 30 * second, Least: second, Most: 7 * day})
	Sessions = row(Limit{Name: "sessions", Section: "http", Key: "max_sessions",
		Default: 1000, Least: 1, Most: 1_000_000, Advice: "try again later"})
	SessionsPerToken = row(Limit{Name: "sessions_per_token", Section: "http", Key: "max_sessions_per_token",
		Derived: "half", Least: 1, Most: 1_000_000, Advice: "end some"})
	SessionsPerAddress = row(Limit{Name: "sessions_per_address", Section: "http", Key: "max_sessions_per_address",
		Derived: "half", Least: 1, Most: 1_000_000, Advice: "end some"})
	InitializeRate = row(Limit{Name: "initialize_rate", Section: "http", Key: "initialize_rate",
		Default: 50, Least: 1, Most: 1_000_000, Advice: "try again later"})
	Connections = row(Limit{Section: "http", Key: "max_connections",
		Default: 4096, Least: 1, Most: 1_000_000})
	ConnectionsPerAddress = row(Limit{Section: "http", Key: "max_connections_per_address",
		Derived: "half", Least: 1, Most: 1_000_000})
	ResumeWindow = row(Limit{Section: "http", Key: "resume_window", Unit: Duration,
		Default: 5 * second, Least: 0, Most: hour})
)
