package abi

import "encoding/json"

// Lint is the result of OpLint: what is known about code without running it. For code
// that does not parse, only Open is set; OpCheck returns the error.
type Lint struct {
	Parses bool `json:"parses"`
	// Warnings are in the order of the source, at most 100.
	Warnings []Warning `json:"warnings"`
	// Calls are the tools that the code names, in no order, at most 1000. Only the
	// host knows which of them exist.
	Calls []NamedTool `json:"calls"`
	// Params are the arguments that the code names, at most 1000.
	Params []NamedParam `json:"params,omitempty"`
	// Open reports that the code is incomplete: it ends within brackets or a long
	// string, or where a block must follow.
	Open bool `json:"open,omitempty"`
	// Block reports that the last statement has a block, which more lines could
	// continue.
	Block bool `json:"block,omitempty"`
	// Value is the position of the last statement if that is an expression. Its
	// value is the result of the code.
	Value *Position `json:"value,omitempty"`
	// Bound are the variables of the code, in the order of the source.
	Bound []Binding `json:"bound"`
	// Derived reports that Reach is set. It is for all code that OpCheck accepts.
	Derived bool `json:"derived,omitempty"`
	// Reach is every tool that the code can call, in whatever way, and perhaps more:
	// tools by their names, and servers of which it can call any tool. Sorted, at most
	// about 1000.
	Reach []Reached `json:"reach,omitempty"`
}

// Reached is a tool that code can call.
type Reached struct {
	// Server, Tool and Exact are as in ToolCall. With no Tool, it is every tool of
	// the server.
	Server string `json:"server"`
	Tool   string `json:"tool,omitempty"`
	Exact  bool   `json:"exact,omitempty"`
	// Line and Column are the first place that lets the code call it, from 1, in code
	// points; 0 if there is none.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Covers reports whether the code can make a call, as far as its tool is concerned.
func (r Reached) Covers(c ToolCall) bool {
	return r.Server == c.Server && (r.Tool == "" || r.Tool == c.Tool && r.Exact == c.Exact)
}

// Warning is about code that runs, but probably not as intended.
type Warning struct {
	Position Position `json:"position"`
	Message  string   `json:"message"`
}

// NamedTool is a tool that code names, to call it or to pass it on.
type NamedTool struct {
	Position Position `json:"position"`
	// Server, Tool and Exact are as in ToolCall.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Exact  bool   `json:"exact,omitempty"`
	// Undefined reports that nothing is called Server. There is also a warning.
	Undefined bool `json:"undefined,omitempty"`
	// Arguments is a JSON object of the arguments in the code, with null for each
	// value that is not a literal; absent if the code does not show them.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Unknown are the JSON pointers (RFC 6901) of values that are not literals.
	Unknown []string `json:"unknown,omitempty"`
	// More reports that there can be arguments with names that the code does not show.
	More bool `json:"more,omitempty"`
}

// NamedParam is an argument of the tool that code names: params.x, params["x"] or
// params.get("x").
type NamedParam struct {
	Position Position `json:"position"`
	Name     string   `json:"name"`
}

// Binding is a variable of a script. Functions that it defines are variables too.
type Binding struct {
	Name string `json:"name"`
	// First and Last are the first and last line of the statement that binds it, if it
	// is the only one, defines a function, and has these lines for itself. Running the
	// lines again binds the same function and calls nothing. Otherwise they are 0.
	First int `json:"first,omitempty"`
	Last  int `json:"last,omitempty"`
}
