package abi

import "encoding/json"

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
