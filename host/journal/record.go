package journal

import (
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Begin is what a run starts from: with the answers to its calls it decides all
// that the run does.
type Begin struct {
	// Definition is that of the saved tool, as it was; of code that is not saved
	// only Name and Code are set.
	Definition tools.Definition
	Saved      bool   // it is a saved tool
	Params     []byte // raw JSON object, as the client sent it
	Meta       []byte // raw JSON object: the _meta that goes with calls; nil: none
	Limits     Limits
	Servers    []string // script names of the servers that the script can name
	AgentTools []string // see abi.Request
	Guest      string   // SHA-256 of the guest that runs it, lower-case hex
	Client     Client
	// Parent is the run whose script has called the tool; nil for a run that a
	// client has asked for.
	Parent *Parent
}

// Client is who has asked for a run.
type Client struct {
	Session string // id of the session, see route.Session
	// Name and Version are what the client calls itself.
	Name, Version string
}

// Parent is the call that a run answers.
type Parent struct {
	Run  string // id
	Call int    // its Seq
}

// Limits are those that a run has; see sandbox.Limits.
type Limits struct {
	Timeout                                time.Duration
	Memory, Fuel                           uint64
	Calls, Arguments, Answer, Result, Logs int
}

// Record is the record of one run.
type Record struct {
	ID    string
	Start time.Time
	Begin
	Calls []CallRecord // in the order in which the script made them
	Undos []UndoRecord // likewise
	Logs  []Entry

	// Done tells whether the run has ended; Duration and Outcome are
	// meaningful only then.
	Done     bool
	Duration time.Duration
	Outcome  Outcome

	// Redacted tells that the record was read from the journal on disk, and that
	// something in it was replaced there because nobody may read it.
	Redacted bool
	// Incomplete tells that the record was read from the journal on disk, and
	// that some of the run could not be written there.
	Incomplete bool
}

// Outcome is how a run ended.
type Outcome struct {
	// Error is the class of error it ended with; "" when it succeeded.
	Error abi.ErrorType
	// Message says what went wrong.
	Message string
	// Failure is the raw JSON object {type, message, details, stack} that the
	// client was told; nil when it succeeded.
	Failure []byte
	// Result is the raw JSON the script returned; nil when it failed.
	Result []byte
	// Fuel is what the run used, in units, with the runs of saved tools that its
	// script has called; 0 where it is not metered.
	Fuel uint64
	// Checked is the fuel that went into checking arguments for upstreams, of the
	// run and those below it; 0 for a run that a script has asked for.
	Checked uint64
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
	// Asked is the call as the script wrote it.
	Asked abi.ToolCall
	// Server and Tool are the real names; what the script wrote when it could
	// not be resolved.
	Server, Tool string
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

// Any tells whether has is true of the run or of one below it.
func (r *Record) Any(has func(*Record) bool) bool {
	return has(r) || slices.ContainsFunc(r.Calls, func(c CallRecord) bool { return c.Answer.Run != nil && c.Answer.Run.Any(has) })
}

// UndoRecord is the record of a call that the script has named to undo something
// should the run fail. Whether it was made is told by a CallRecord.
type UndoRecord struct {
	Asked        abi.ToolCall // as the script wrote it
	Server, Tool string       // as in CallRecord
	// Err is what the script was told is wrong with it; nil: it was taken.
	Err *abi.CallError
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
