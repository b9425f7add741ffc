package abi

import (
	"encoding/json"
)

// Op is the kind of a Request.
type Op string

const (
	// OpRun runs Code and answers with the result.
	OpRun Op = "run"
	// OpCheck only parses and resolves Code: an empty result, or the error.
	OpCheck Op = "check"
	// OpLint only looks at Code: the result is a [Lint].
	OpLint Op = "lint"
	// OpPrepare is the first half of OpRun: the guest compiles Code and keeps the program. The
	// result is null, or the error. The program depends on nothing but Name, Code, Servers,
	// AgentTools and Memory, so the host can keep the guest's state for all runs with the same
	// values of these.
	OpPrepare Op = "prepare"
	// OpExecute is the second half: the guest executes the program of the request before, which was
	// an OpPrepare, with Params. No other request follows.
	OpExecute Op = "execute"
)

// Request is the task of the guest.
type Request struct {
	Op Op `json:"op"`
	// Name is the name of the tool. The name is the file name in positions.
	Name string `json:"name"`
	// Code is Starlark source, UTF-8. Absent for OpExecute.
	Code string `json:"code,omitempty"`
	// Params is a JSON object, already validated. Absent for OpCheck and OpPrepare.
	Params json.RawMessage `json:"params,omitempty"`
	// Servers are the script names (see [Ident]) of the servers a script can name. The host
	// resolves their tools at the call. For OpPrepare, Servers first has only the servers mentioned
	// in Code. If the guest answers with an error, the guest gets the same request again with all
	// servers, so the error can suggest a name.
	Servers []string `json:"servers,omitempty"`
	// AgentTools are the names of tools mentioned in Code but callable only by agents: the host's
	// built-in tools. If a script uses one of these names, the error message says so.
	AgentTools []string `json:"agentTools,omitempty"`
	// Memory is the maximum size of the linear memory in bytes, for the guest's garbage collector.
	// The host enforces the limit in any case.
	Memory uint64 `json:"memory,omitempty"`
	// Now is the time of the run, in microseconds since 1970, and Seed the source of the run's
	// random numbers. Scripts learn of no other time and get no other numbers, so a run with the
	// same Request and the same answers does the same. Both are exact in a float of 64 bits. Absent
	// for OpCheck and OpLint.
	Now  int64  `json:"now,omitempty"`
	Seed uint64 `json:"seed,omitempty"`
	// Withheld is set for OpRun and OpExecute if answers can be withheld, because the host only
	// plans the run. Then a string of Withheld and a decimal number (from 1, without leading zeros)
	// stands for the answer with the number: in Params, in answers read with FuncAnswerRead (they
	// have no tapes), and in the arguments, the meta and the result written by the guest. Withheld
	// is long and random, so neither scripts nor servers can make the string. A script must not
	// learn Withheld, nor anything about withheld answers: when a script looks into a withheld
	// answer, the guest ends the run with an Error of type ErrWithheld.
	Withheld string `json:"withheld,omitempty"`
}

// Composites is the script name under which scripts call saved composite tools, like the tools of a
// server. The name is never in Request.Servers.
const Composites = "tools"

// ToolCall is a call of a batch.
type ToolCall struct {
	// Server is a script name from Request.Servers, or Composites.
	Server string `json:"server"`
	// Tool is the tool as the script wrote it: a script name (attribute form) or, if Exact, the
	// server's own name for the tool (index form). Exact looks for the server's own name first and
	// for the script name second.
	Tool  string `json:"tool"`
	Exact bool   `json:"exact,omitempty"`
	// Raw requests the whole MCP result instead of the value inside.
	Raw bool `json:"raw,omitempty"`
	// Timeout is how long the call may take, in seconds; 0 is no limit other than the limit of the
	// run. A call that takes longer gets a CallError of type ErrTimeout.
	Timeout float64 `json:"timeout,omitempty"`
	// Meta is a JSON object: members for the _meta of the request, next to the members added by the
	// host. Absent without members.
	Meta json.RawMessage `json:"meta,omitempty"`
	// Caught says the script could go on after a failure of the call, because of a try statement
	// around the call or the like. Caught is only set if Request.Withheld is. The host then
	// withholds the answer by a CallError of type ErrWithheld.
	Caught bool `json:"caught,omitempty"`
	// Arguments is a JSON object.
	Arguments json.RawMessage `json:"arguments"`
}

// Answer is the host's answer to a ToolCall: either Value (valid JSON) or Err. FuncAnswerRead
// returns the bytes of Value with code OK, or of Err with code ToolError.
type Answer struct {
	Value []byte
	Err   *CallError
	// Tape is Value in another form (package tape). The guest has the tape in place of Value if the
	// host could give a tape.
	Tape []uint32
}

// CallError says why a tool call returned no value. A CallError raises an error in the script.
type CallError struct {
	// Type is ErrTool if the tool failed. Otherwise Type is the class of the error that prevented
	// the call, for example ErrPermission or ErrValidation.
	Type ErrorType `json:"type"`
	// Server and Tool are the real names (not script names).
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Message string `json:"message"`
	// Details is optional JSON: a JSON-RPC error's data, or the content of an
	// isError result.
	Details json.RawMessage `json:"details,omitempty"`
	// Limit is set when the call exceeded a fixed limit: LimitDepth for an answer, LimitChain for a
	// composite tool called by other composite tools.
	Limit string `json:"limit,omitempty"`
}

// Progress is the progress reported by a script.
type Progress struct {
	Progress float64  `json:"progress"`
	Total    *float64 `json:"total,omitempty"`
	Message  string   `json:"message,omitempty"`
}

// ErrorType is the class of an error, as seen by clients.
type ErrorType string

// The classes of error.
const (
	ErrValidation ErrorType = "validation" // arguments, a schema or the source are not acceptable
	ErrRuntime    ErrorType = "runtime"    // the script failed
	ErrTool       ErrorType = "tool"       // a tool called by the script failed
	ErrTimeout    ErrorType = "timeout"    // the wall-clock limit
	ErrResource   ErrorType = "resource"   // memory, fuel, recursion, sizes, number of calls
	ErrCancelled  ErrorType = "cancelled"  // the client cancelled the request
	ErrPermission ErrorType = "permission" // a tool the script may not call
	ErrInternal   ErrorType = "internal"   // a bug of the host or guest
	ErrWithheld   ErrorType = "withheld"   // a plan goes no further: the script needs an answer not known yet
)

// Error is a guest's report of a failed script.
type Error struct {
	Type    ErrorType `json:"type"`
	Message string    `json:"message"`
	// Position is the place of the failure in the script; absent when unknown.
	Position *Position `json:"position,omitempty"`
	// Call is set when a tool call's error was not caught.
	Call *CallError `json:"call,omitempty"`
	// Details are the details given by the script with fail(..., details=x) or Error(...,
	// details=x): any JSON value.
	Details json.RawMessage `json:"details,omitempty"`
	// Stack is the Starlark backtrace, most recent call last.
	Stack string `json:"stack,omitempty"`
	// Limit is set when the script reached a limit enforced by the guest, listed below.
	Limit string `json:"limit,omitempty"`
}

// The fixed limits enforced by a guest.
const (
	LimitRecursion = "recursion" // MaxFrames
	LimitDepth     = "depth"     // MaxDepth
	LimitMemory    = "memory"    // a value larger than any memory
)

// LimitChain is a fixed limit enforced by the host: MaxChain.
const LimitChain = "chain"

// Position is a place in a script.
type Position struct {
	// File is the tool's name.
	File string `json:"file"`
	// Line and Column count from 1; columns count code points.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Source is the line of the script, without the end-of-line.
	Source string `json:"source,omitempty"`
}

// Lint is the result of OpLint: facts about code without running the code. For code with a syntax
// error, only Open is set; OpCheck returns the error.
type Lint struct {
	Parses bool `json:"parses"`
	// Warnings are in the order of the source, at most 100.
	Warnings []Warning `json:"warnings"`
	// Calls are the tools named in the code, in no order, at most 1000. Only the host knows which
	// of them exist.
	Calls []NamedTool `json:"calls"`
	// Params are the arguments named in the code, at most 1000.
	Params []NamedParam `json:"params,omitempty"`
	// Open reports incomplete code: the code ends within brackets or a long string, or where a
	// block must follow.
	Open bool `json:"open,omitempty"`
	// Block reports a last statement with a block, which more lines could continue.
	Block bool `json:"block,omitempty"`
	// Value is the position of the last statement if the statement is an expression. The value of
	// the expression is the result of the code.
	Value *Position `json:"value,omitempty"`
	// Bound are the variables of the code, in the order of the source.
	Bound []Binding `json:"bound"`
	// Derived reports that Reach is set, as for all code accepted by OpCheck.
	Derived bool `json:"derived,omitempty"`
	// Reach is every tool callable by the code, in whatever way, and perhaps more: tools by their
	// names, and servers with all tools callable. Sorted, at most about 1000.
	Reach []Reached `json:"reach,omitempty"`
}

// Reached is a tool callable by code.
type Reached struct {
	// Server, Tool and Exact are as in ToolCall. With no Tool, Reached is every tool of the server.
	Server string `json:"server"`
	Tool   string `json:"tool,omitempty"`
	Exact  bool   `json:"exact,omitempty"`
	// Line and Column are the first place where the code can call the tool, from 1, in code points;
	// 0 without a place.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Covers reports whether the code can make a call to the tool of c.
func (r Reached) Covers(c ToolCall) bool {
	return r.Server == c.Server && (r.Tool == "" || r.Tool == c.Tool && r.Exact == c.Exact)
}

// Warning is about code that runs, but probably not as intended.
type Warning struct {
	Position Position `json:"position"`
	Message  string   `json:"message"`
}

// NamedTool is a tool named in code, for a call or to be passed on.
type NamedTool struct {
	Position Position `json:"position"`
	// Server, Tool and Exact are as in ToolCall.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Exact  bool   `json:"exact,omitempty"`
	// Undefined reports the absence of anything called Server. A warning says the same.
	Undefined bool `json:"undefined,omitempty"`
	// Arguments is a JSON object of the arguments in the code, with null for each value other than
	// a literal; absent if the code does not show the arguments.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Unknown are the JSON pointers (RFC 6901) of values other than literals.
	Unknown []string `json:"unknown,omitempty"`
	// More reports possible arguments with names not shown in the code.
	More bool `json:"more,omitempty"`
}

// NamedParam is an argument of the tool named in code: params.x, params["x"] or params.get("x").
type NamedParam struct {
	Position Position `json:"position"`
	Name     string   `json:"name"`
}

// Binding is a variable of a script. Functions of the script are variables too.
type Binding struct {
	Name string `json:"name"`
	// First and Last are the first and last line of the statement that binds the variable, if this
	// statement is the only binding, defines a function, and has these lines for itself. Running
	// the lines again binds the same function and calls nothing. Otherwise both are 0.
	First int `json:"first,omitempty"`
	Last  int `json:"last,omitempty"`
}
