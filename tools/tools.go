// Package tools implements saved composite tools: their definitions, names and JSON Schemas, the
// checking of arguments, and the directory in which tools are stored.
//
// Begin with [Definition], a tool, and [Store], which keeps definitions as one JSON file each,
// shared safely between processes. [CompileSchema] makes a [Schema], which validates JSON and
// coerces the arguments of a call without loss.
//
// The package reads and writes raw JSON: no number is converted to float64, and no object loses its
// key order.
package tools

import (
	"encoding/json"
	"slices"
	"time"
)

// Definition is a saved composite tool.
//
// The byte slices of a definition from a [Store] are shared with other callers and must not be
// changed.
type Definition struct {
	// Name is the tool's name and, with ".json" added, the file's name; see [CheckName].
	Name string
	// Description is the text by which agents choose the tool. An empty text is allowed.
	Description string
	// InputSchema is the JSON Schema of the call's arguments, an object with the root "type"
	// "object". Key order and number literals are kept; white space between tokens is not.
	InputSchema json.RawMessage
	// OutputSchema is the JSON Schema of the script's result, kept like InputSchema; nil if
	// the tool has none.
	OutputSchema json.RawMessage
	// Limits are the tool's own limits; the zero value means the limits of the configuration.
	Limits Limits
	// Durability says whether runs outlive their process.
	Durability
	// Permissions name the tools that the tool may call; nil if unknown. The caller of [Store.Save]
	// derives them.
	Permissions *Permissions
	// Labels are the labels of the session that saved the tool, for example "private": names of
	// data the session was given before. The code may depend on this data. Nil for none.
	Labels []string
	// Code is the Starlark script. The script is never parsed here: untrusted source is parsed only
	// in the sandbox.
	Code string
	// Metadata is maintained by the store, see [Store.Save].
	Metadata Metadata
	// Extra holds the unknown members of the file, in file order, so that rewriting a file from a
	// later version loses nothing. In [Store.Save], nil keeps the file's members.
	Extra []Member

	// schemas has the compiled schemas of definitions from a [Store]; nil for other definitions.
	schemas *Schemas
}

// Input returns the compiled InputSchema. For a definition from a [Store] the schema is compiled at
// its first use, after a turn if turn is not nil; for other definitions on each call. The error is
// a [*SchemaError].
func (d *Definition) Input(turn Turn) (*Schema, error) {
	if d.schemas == nil {
		return CompileInputSchema(d.InputSchema, "inputSchema")
	}
	return d.schemas.Input(d.InputSchema, "inputSchema", turn)
}

// Output is like Input for the OutputSchema; without an OutputSchema the result is nil, nil.
func (d *Definition) Output(turn Turn) (*Schema, error) {
	if d.OutputSchema == nil {
		return nil, nil
	}
	if d.schemas == nil {
		return CompileSchema(d.OutputSchema, "outputSchema")
	}
	return d.schemas.Any(d.OutputSchema, "outputSchema", turn)
}

// checkSchemas compiles both schemas, and keeps neither.
func (d *Definition) checkSchemas() error {
	_, err := CompileInputSchema(d.InputSchema, "inputSchema")
	if err == nil && d.OutputSchema != nil {
		_, err = CompileSchema(d.OutputSchema, "outputSchema")
	}
	return err
}

// Metadata has the times of a tool and the number of its runs. All times are in UTC.
type Metadata struct {
	// Created and Modified are written in RFC 3339. If a file lacks them, they are set to the
	// file's modification time.
	Created, Modified time.Time
	// ExecutionCount is the number of executions recorded by all processes, including this
	// process's executions not yet on disk.
	ExecutionCount int64
	// LastExecuted is zero, and absent from the file, before the first execution.
	LastExecuted time.Time
	// Extra holds unknown members of the metadata object, like Definition.Extra.
	Extra []Member
}

// Member is a name and raw value of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// sameToAgents reports whether two definitions are the same for an agent, ignoring counts
// and times.
func (d *Definition) sameToAgents(o *Definition) bool {
	return d.Changes(o) == nil && slices.Equal(d.Permissions.List(), o.Permissions.List())
}
