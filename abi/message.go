package abi

import "encoding/json"

// Op says what a Request asks for.
type Op string

const (
	// OpRun runs Code and answers with its result.
	OpRun Op = "run"
	// OpCheck only parses and resolves Code: an empty result, or the error.
	OpCheck Op = "check"
	// OpLint only looks at Code: the result is a [Lint].
	OpLint Op = "lint"
)

// Request is what a guest is started for.
type Request struct {
	Op Op `json:"op"`
	// Name of the tool; it stands for the file name in positions.
	Name string `json:"name"`
	// Code is Starlark source, UTF-8.
	Code string `json:"code"`
	// Params is a JSON object, already validated. Absent for OpCheck.
	Params json.RawMessage `json:"params,omitempty"`
	// Servers are the script names (see [Ident]) of the servers a script can
	// name. Their tools are resolved by the host when they are called.
	Servers []string `json:"servers,omitempty"`
	// Memory is the run's memory limit in bytes, so that the guest's collector
	// can work towards it. The host enforces it whatever the guest does.
	Memory uint64 `json:"memory,omitempty"`
}

// Composites is the script name of the server that stands for the composite
// tools that are saved on the host; it is never in Request.Servers.
const Composites = "tools"

// ToolCall is one call of a batch.
type ToolCall struct {
	// Server is a script name out of Request.Servers, or Composites.
	Server string `json:"server"`
	// Tool is the tool as the script wrote it: a script name (attribute form),
	// or, if Exact, the server's own name for it (index form). Exact lookup is
	// by the server's own name first and by script name second.
	Tool  string `json:"tool"`
	Exact bool   `json:"exact,omitempty"`
	// Raw asks for the whole MCP result instead of the value in it.
	Raw bool `json:"raw,omitempty"`
	// Timeout is how long the call may take, in seconds; 0 is no limit beside
	// that of the run. One that takes longer gets a CallError of type
	// ErrTimeout.
	Timeout float64 `json:"timeout,omitempty"`
	// Meta is a JSON object: members for the _meta of the request, beside those
	// that the host puts there. Absent is none.
	Meta json.RawMessage `json:"meta,omitempty"`
	// Arguments is a JSON object.
	Arguments json.RawMessage `json:"arguments"`
}

// Answer is the host's answer to one ToolCall: either Value (valid JSON) or
// Err. It crosses the boundary as bare bytes under code OK or ToolError.
type Answer struct {
	Value []byte
	Err   *CallError
}

// CallError says why a tool call gave no value. It raises an error in the
// script.
type CallError struct {
	// Type is ErrTool, or the class of what stood in the way
	// (ErrPermission, ErrValidation).
	Type ErrorType `json:"type"`
	// Server and Tool are the real names (not script names).
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Message string `json:"message"`
	// Details is optional JSON: a JSON-RPC error's data, or the content of an
	// isError result.
	Details json.RawMessage `json:"details,omitempty"`
	// Limit is set when the call was over a fixed limit: LimitDepth for its
	// answer, LimitChain for a composite tool that others have called.
	Limit string `json:"limit,omitempty"`
}

// Progress is what a script says of its own advance.
type Progress struct {
	Progress float64  `json:"progress"`
	Total    *float64 `json:"total,omitempty"`
	Message  string   `json:"message,omitempty"`
}

// ErrorType is the class of an error, as clients see it.
type ErrorType string

// The classes of error.
const (
	ErrValidation ErrorType = "validation" // arguments, a schema or the source are not acceptable
	ErrRuntime    ErrorType = "runtime"    // the script failed
	ErrTool       ErrorType = "tool"       // a tool that the script called failed
	ErrTimeout    ErrorType = "timeout"    // the wall-clock limit
	ErrResource   ErrorType = "resource"   // memory, fuel, recursion, sizes, number of calls
	ErrCancelled  ErrorType = "cancelled"  // the client took its request back
	ErrPermission ErrorType = "permission" // a tool the script may not call
	ErrInternal   ErrorType = "internal"   // a fault of ours
)

// Error is how a guest reports a script that failed.
type Error struct {
	Type    ErrorType `json:"type"`
	Message string    `json:"message"`
	// Position is where it failed, in the script; absent when unknown.
	Position *Position `json:"position,omitempty"`
	// Call is set when a tool call's error was not caught.
	Call *CallError `json:"call,omitempty"`
	// Details is what the script said of its error, with fail(..., details=x)
	// or Error(..., details=x): any JSON value.
	Details json.RawMessage `json:"details,omitempty"`
	// Stack is the Starlark backtrace, most recent call last.
	Stack string `json:"stack,omitempty"`
	// Limit is set when the script met a limit that the guest keeps itself: one
	// of those below.
	Limit string `json:"limit,omitempty"`
}

// The limits that a guest keeps itself. They are fixed.
const (
	LimitRecursion = "recursion" // MaxFrames
	LimitDepth     = "depth"     // MaxDepth
	LimitMemory    = "memory"    // for a value larger than any memory
)

// LimitChain is a limit that the host keeps itself: MaxChain.
const LimitChain = "chain"

// Position is a place in a script.
type Position struct {
	// File is the tool's name.
	File string `json:"file"`
	// Line and Column count from 1; columns count code points.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Source is that line of the script, without its end-of-line.
	Source string `json:"source,omitempty"`
}
