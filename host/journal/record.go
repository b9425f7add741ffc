package journal

import (
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Begin is the input of a run. The input and the answers to calls determine everything in the run.
type Begin struct {
	// Definition is the definition of the saved tool at the time of the run. For unsaved code, only
	// Name and Code are set.
	Definition tools.Definition
	Saved      bool   // the run is of a saved tool
	Params     []byte // raw JSON object, as sent by the client
	Meta       []byte // raw JSON object: the _meta of calls; nil: none
	Limits     Limits
	Servers    []string // script names of the servers usable by the script
	AgentTools []string // see abi.Request
	Now        int64    // see abi.Request
	Seed       uint64   // see abi.Request
	Guest      string   // SHA-256 of the guest, lower-case hex
	Client     Client
	// Parent is the call of another run, answered by this run; nil for a run requested by a client.
	Parent *Parent
	// Continues is the id of the continued run, after the client has answered the questions of the
	// continued run; "" for none. This run has the same input, gets the same answers to calls, and
	// then continues.
	Continues string
	// First is the id of the first run of the chain of which the run is the last; "" for a run that
	// continues none.
	First string
	// ContinuesHead is the Head of the continued run; "" if unknown after the death of the process.
	ContinuesHead string
	// Elapsed is the duration of the earlier runs continued by this run.
	Elapsed time.Duration
	// Plan is set for a run that makes or carries out a plan.
	Plan *Plan
}

// Marker returns abi.Request.Withheld of the run; "" for none.
func (b *Begin) Marker() string {
	if b.Plan == nil {
		return ""
	}
	return b.Plan.Marker
}

// Plan is the relation of a run to a plan (package plan).
type Plan struct {
	// Makes is the id of the plan made by the run, and Applies the id of the plan carried out by
	// the run; "" for none.
	Makes, Applies string
	// Digest is the digest of the plan in Applies.
	Digest string
	// Marker is abi.Request.Withheld: followed by the number of a write, Marker stands for the
	// answer of the write in the record.
	Marker string
}

// Client is the client that has requested a run.
type Client struct {
	Session string // id of the session, see route.Session
	// Name and Version are from the client's clientInfo.
	Name, Version string
	// Token is the name of the client's token; "" for none.
	Token string
}

// Parent identifies the call answered by a run.
type Parent struct {
	Run  string // id
	Call int    // Seq of the call
}

// Limits are the limits of a run; see sandbox.Limits.
type Limits struct {
	Timeout                                time.Duration
	Memory, Fuel                           uint64
	Calls, Arguments, Answer, Result, Logs int
}

// Record is the record of a run.
type Record struct {
	ID    string
	Start time.Time
	Begin
	Calls []CallRecord // in the order in which the script made them
	Undos []UndoRecord // in the order in which the script registered them
	Logs  []Entry
	// Inputs are the questions of servers to the client during calls, in the order of asking.
	Inputs []InputRecord
	// Flow are the findings and decisions of information flow, in order.
	Flow []FlowRecord

	// Done reports whether the run has ended. Duration and Outcome are set only
	// then.
	Done     bool
	Duration time.Duration
	Outcome  Outcome

	// Head is the digest of the last event of an ended run on disk (package seal); "" for events
	// without digests. Seal is the signature over Head, or nil.
	Head string
	Seal *seal.Seal

	// Redacted is set for a record read from disk if secrets were replaced before the write.
	Redacted bool
	// Incomplete is set for a record read from disk if a part could not be written.
	Incomplete bool

	memory []byte // held as long as the record is in use; frees the record's memory
}

// InputRecord is a question to the client.
type InputRecord struct {
	Call   int    // Seq of the call of the question
	Name   string // of the question in the result with the question to the client; "" if none
	Method string // for example "elicitation/create"
	Params []byte // raw JSON object; nil for none
	// Unsure is set if the server had several calls in flight: Call is then a guess.
	Unsure bool
	// Own is set if the proxy itself asked, for the approval of the call, and no server.
	Own bool
	// Answer is the raw result of the client, a JSON object; nil if the run ended with the
	// question.
	Answer []byte
}

// Outcome is how a run ended.
type Outcome struct {
	// Error is the class of the run's error; "" after success.
	Error abi.ErrorType
	// Message is the text of the error.
	Message string
	// Asks is set if the run ended with a question to the client; another run continues after the
	// answer. Error is abi.ErrCancelled then.
	Asks bool
	// Failure is the raw JSON object {type, message, details, stack} for the client; nil after
	// success.
	Failure []byte
	// Result is the raw JSON returned by the script; nil after a failure.
	Result []byte
	// Fuel is the fuel used by the run, including nested runs; 0 if fuel is not metered.
	Fuel uint64
	// Checked is the fuel used to check arguments for upstreams, including nested runs; 0 for a
	// nested run.
	Checked uint64
	// Waited is how long the run, with nested runs, waited for people's decisions about calls. The
	// wait does not count for the time limit.
	Waited time.Duration
	// Memory is the peak of the instance's linear memory in bytes.
	Memory uint64
}

// Entry is an entry of a run's log.
type Entry struct {
	At    time.Duration // since the start of the run
	Level abi.LogLevel
	Text  string
}

// CallRecord is the record of a call.
type CallRecord struct {
	Seq int // from 1
	// Request is the call as written by the script.
	Request abi.ToolCall
	// Server and Tool are the real names, or the names in the script if unresolved.
	Server, Tool string
	Start        time.Duration // since the start of the run
	Progress     int           // progress notifications received
	// Undo is set for a compensation, made after the end of the script.
	Undo bool

	// Done reports whether the call was answered before the run ended. Duration and
	// Answer are set only then.
	Done     bool
	Duration time.Duration
	Answer   Answer
}

// Any reports whether has is true of the run or of a nested run.
func (r *Record) Any(has func(*Record) bool) bool {
	return has(r) || slices.ContainsFunc(r.Calls, func(c CallRecord) bool { return c.Answer.Run != nil && c.Answer.Run.Any(has) })
}

// Open returns the questions that the client has to answer before another run can continue this
// run, with the questions of nested runs.
func (r *Record) Open() []InputRecord {
	if !r.Outcome.Asks {
		return nil
	}
	var open []InputRecord
	for _, in := range r.Inputs {
		if in.Answer == nil {
			open = append(open, in)
		}
	}
	for _, c := range r.Calls {
		if c.Answer.Run != nil {
			open = append(open, c.Answer.Run.Open()...)
		}
	}
	return open
}

// UndoRecord is the record of a compensation registered by the script. An executed compensation has
// a CallRecord too.
type UndoRecord struct {
	Request      abi.ToolCall // as written by the script
	Server, Tool string       // as in CallRecord
	// Err is the error received by the script; nil if the compensation was accepted.
	Err *abi.CallError
}

// Answer is the answer to a call, as sent by the upstream and as received by the script.
type Answer struct {
	// Result is the raw CallToolResult; or nil.
	Result []byte
	// RPCError is the raw JSON-RPC error object of the upstream's answer.
	RPCError []byte
	// Meta is the raw _meta of Result; or nil.
	Meta []byte
	// Value is the raw JSON received by the script.
	Value []byte
	// Run is the record of the answering nested run, if the script called a composite tool;
	// otherwise nil.
	Run *Record
	// Err is the error received by the script instead of a value: for an isError result, a JSON-RPC
	// error, or a suppressed call.
	Err *abi.CallError
	// Decision is policy's decision about the call, nil for a plain default.
	Decision *policy.Decision
}
