package journal

import (
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Begin is the input of a run. Together with the answers to its calls it determines
// everything that the run does.
type Begin struct {
	// Definition is the definition of the saved tool at that time. For code that is
	// not saved, only Name and Code are set.
	Definition tools.Definition
	Saved      bool   // it is a saved tool
	Params     []byte // raw JSON object, as the client sent it
	Meta       []byte // raw JSON object: the _meta that is sent with calls; nil: none
	Limits     Limits
	Servers    []string // script names of the servers that the script can use
	AgentTools []string // see abi.Request
	Now        int64    // see abi.Request
	Seed       uint64   // see abi.Request
	Guest      string   // SHA-256 of the guest that runs it, lower-case hex
	Client     Client
	// Parent is the call of another run that this run answers; nil if a client has
	// requested the run.
	Parent *Parent
	// Continues is the id of the run that this one continues, because the client has
	// answered what that run asked; "" for none. This run has the same input, gets the
	// same answers to its calls, and then goes on.
	Continues string
	// First is the id of the first run of the chain that the run is the last of; "" if it
	// continues none.
	First string
	// ContinuesHead is the Head of that run; "" if it is not known, since its process died.
	ContinuesHead string
	// Elapsed is how long the runs before took that this one continues.
	Elapsed time.Duration
	// Plan is set for a run that is planned or carries out a plan.
	Plan *Plan
}

// Marker returns abi.Request.Withheld of the run; "" for none.
func (b *Begin) Marker() string {
	if b.Plan == nil {
		return ""
	}
	return b.Plan.Marker
}

// Plan says what a run has to do with a plan (package plan).
type Plan struct {
	// Makes is the id of the plan that the run makes, if it makes one, and Applies that of
	// the plan that it carries out; "" for none.
	Makes, Applies string
	// Digest is that of the plan that it carries out.
	Digest string
	// Marker is abi.Request.Withheld: with the number of a write behind it, it stands for
	// the answer of that write in the record.
	Marker string
}

// Client is the client that has requested a run.
type Client struct {
	Session string // id of the session, see route.Session
	// Name and Version are from the client's clientInfo.
	Name, Version string
	// Token is the name of the token that the client has; "" for none.
	Token string
}

// Parent identifies the call that a run answers.
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

// Record is the record of one run.
type Record struct {
	ID    string
	Start time.Time
	Begin
	Calls []CallRecord // in the order in which the script made them
	Undos []UndoRecord // in the order in which the script registered them
	Logs  []Entry
	// Inputs are what servers asked the client during calls, in the order in which they
	// asked.
	Inputs []InputRecord
	// Flow is what information flow has found out and decided, in this order.
	Flow []FlowRecord

	// Done reports whether the run has ended. Duration and Outcome are set only
	// then.
	Done     bool
	Duration time.Duration
	Outcome  Outcome

	// Head is the digest of the last event of a run that has ended on disk (package seal); "" if its
	// events have no digests. Seal is the signature about it; nil if there is none.
	Head string
	Seal *seal.Seal

	// Redacted reports that the record was read from disk and that secrets in it
	// were replaced before it was written.
	Redacted bool
	// Incomplete reports that the record was read from disk and that part of it
	// could not be written.
	Incomplete bool

	memory []byte // is what the memory of the record is held for
}

// InputRecord is a question to the client.
type InputRecord struct {
	Call   int    // Seq of the call during which it was asked
	Name   string // of the question in the result that asked the client; "" if none did
	Method string // such as "elicitation/create"
	Params []byte // raw JSON object; nil for none
	// Unsure reports that the server had several calls in flight, so that Call is a guess.
	Unsure bool
	// Own reports that the proxy itself asked, for the approval of the call, and no server.
	Own bool
	// Answer is the raw result of the client, a JSON object; nil if the run ended to get
	// it.
	Answer []byte
}

// Outcome is how a run ended.
type Outcome struct {
	// Error is the class of error it ended with; "" when it succeeded.
	Error abi.ErrorType
	// Message says what went wrong.
	Message string
	// Asks reports that the run ended to ask the client something; another run continues
	// it if the client answers. Error is abi.ErrCancelled then.
	Asks bool
	// Failure is the raw JSON object {type, message, details, stack} that was sent
	// to the client; nil when the run succeeded.
	Failure []byte
	// Result is the raw JSON that the script returned; nil when it failed.
	Result []byte
	// Fuel is the fuel that the run used, including its nested runs; 0 if fuel is
	// not metered.
	Fuel uint64
	// Checked is the fuel that was used to check arguments for upstreams, including
	// nested runs; 0 for a nested run.
	Checked uint64
	// Waited is how long the run, with its nested runs, waited for people to decide about
	// calls, which does not count for its time limit.
	Waited time.Duration
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
	// Request is the call as the script wrote it.
	Request abi.ToolCall
	// Server and Tool are the real names, or what the script wrote if it could not
	// be resolved.
	Server, Tool string
	Start        time.Duration // since the start of the run
	Progress     int           // progress notifications received
	// Undo reports that the call is a compensation, made after the end of the
	// script.
	Undo bool

	// Done reports whether the call was answered before the run ended. Duration and
	// Answer are set only then.
	Done     bool
	Duration time.Duration
	Answer   Answer
}

// Any reports whether has is true of the run or of one of its nested runs.
func (r *Record) Any(has func(*Record) bool) bool {
	return has(r) || slices.ContainsFunc(r.Calls, func(c CallRecord) bool { return c.Answer.Run != nil && c.Answer.Run.Any(has) })
}

// Open returns the questions that the client has to answer before another run can
// continue this one, with those of its nested runs.
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

// UndoRecord is the record of a compensation that the script has registered. If it is
// made, it has a CallRecord too.
type UndoRecord struct {
	Request      abi.ToolCall // as the script wrote it
	Server, Tool string       // as in CallRecord
	// Err is the error that the script received; nil if the compensation was
	// accepted.
	Err *abi.CallError
}

// Answer is the answer to a call, as the upstream sent it and as the script received
// it.
type Answer struct {
	// Result is the raw CallToolResult; nil when there is none.
	Result []byte
	// RPCError is the raw JSON-RPC error object that the upstream answered with.
	RPCError []byte
	// Meta is the raw _meta of Result; nil when it has none.
	Meta []byte
	// Value is the raw JSON that the script received.
	Value []byte
	// Run is the record of the nested run that answered, if the script called a
	// composite tool; otherwise nil.
	Run *Record
	// Err is the error that the script received instead of a value: for an isError
	// result, a JSON-RPC error, or a call that was not made.
	Err *abi.CallError
	// Decision is what policy has decided about the call, nil if that is a plain default.
	Decision *policy.Decision
}
