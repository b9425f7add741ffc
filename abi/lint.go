package abi

import "encoding/json"

// Lint is the result of OpLint: what can be said of code that is not run. Of
// code that does not parse there is only Open; OpCheck has the error.
type Lint struct {
	Parses bool `json:"parses"`
	// Warnings are in the order of the source, at most 100.
	Warnings []Warning `json:"warnings"`
	// Calls are the tools that the code names, in no order, at most 1000. Which
	// of them there are, only the host knows.
	Calls []NamedTool `json:"calls"`
	// Open says that the code ends in the middle of something: within brackets
	// or a long string, or where a block must follow.
	Open bool `json:"open,omitempty"`
	// Block says that the last statement has a block, to which more lines can
	// belong.
	Block bool `json:"block,omitempty"`
	// Value is where the last statement begins, if that is an expression: it is
	// the result of the code.
	Value *Position `json:"value,omitempty"`
	// Bound are the variables of the code, in the order of the source.
	Bound []Binding `json:"bound"`
}

// Warning is about code that runs, but probably not as meant.
type Warning struct {
	Position Position `json:"position"`
	Message  string   `json:"message"`
}

// NamedTool is a tool that code names, to call it or to hand it on.
type NamedTool struct {
	Position Position `json:"position"`
	// Server, Tool and Exact are as in ToolCall.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Exact  bool   `json:"exact,omitempty"`
	// Undefined says that nothing is called Server; there is a warning of that.
	Undefined bool `json:"undefined,omitempty"`
	// Arguments is a JSON object of those that the code gives, with null for each
	// value that the code does not show; absent if it does not show any.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Unknown are the JSON pointers (RFC 6901) of values that are not shown.
	Unknown []string `json:"unknown,omitempty"`
	// More says that there can be arguments whose names are not shown.
	More bool `json:"more,omitempty"`
}

// Binding is a variable of a script, functions that it defines included.
type Binding struct {
	Name string `json:"name"`
	// First and Last are the lines of the only statement that binds it, where
	// that is a function and nothing else is on these lines: run again, they bind
	// the same function, without any call. 0 otherwise.
	First int `json:"first,omitempty"`
	Last  int `json:"last,omitempty"`
}
