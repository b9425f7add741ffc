package journal

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// Record is the record of one run.
type Record struct {
	ID     string
	Tool   string
	Params []byte // raw JSON object, as the client sent it
	Start  time.Time
	Calls  []CallRecord // in the order in which the script made them
	Logs   []Entry

	// Done tells whether the run has ended; Duration and Outcome are
	// meaningful only then.
	Done     bool
	Duration time.Duration
	Outcome  Outcome
}

// Outcome is how a run ended.
type Outcome struct {
	// Error is the class of error it ended with; "" when it succeeded.
	Error abi.ErrorType
	// Message says what went wrong.
	Message string
	// Result is the raw JSON the script returned; nil when it failed.
	Result []byte
	// Fuel is what the run used, in units; 0 where it is not metered.
	Fuel uint64
	// Memory is the peak of the instance's linear memory in bytes.
	Memory uint64
}

// Entry is one entry of a run's log.
type Entry struct {
	At    time.Duration // since the start of the run
	Level abi.LogLevel
	Text  string
}

// CallRecord is the record of one call.
type CallRecord struct {
	Seq int // from 1
	// Server and Tool are the real names; what the script wrote when it could
	// not be resolved.
	Server, Tool string
	Arguments    []byte        // raw JSON object
	Start        time.Duration // since the start of the run
	Progress     int           // progress notifications received
	// Undo tells that the call was made after the script's end, to undo what it
	// has done.
	Undo bool

	// Done tells whether the call was answered before the run ended; Duration
	// and Answer are meaningful only then.
	Done     bool
	Duration time.Duration
	Answer   Answer
}

// Answer is the answer to a call, as the upstream gave it and as the script
// saw it.
type Answer struct {
	// Result is the raw CallToolResult. Nil when there is none.
	Result []byte
	// RPCError is the raw JSON-RPC error object the upstream answered with.
	RPCError []byte
	// Meta is the raw _meta of Result; nil when it has none.
	Meta []byte
	// Value is the raw JSON that the script was given.
	Value []byte
	// Run is the record of the run that answered: of a composite tool that the
	// script has called. Nil for others.
	Run *Record
	// Err is the error that the script was given instead of a value: for an
	// isError result, a JSON-RPC error, or a call that was not made.
	Err *abi.CallError
}
