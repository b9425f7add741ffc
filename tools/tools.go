// Package tools implements saved composite tools: their definitions, names and JSON
// Schemas, the checking of arguments against a schema, and the directory in which tools are
// stored.
//
// A tool is a [Definition]. Its schemas are compiled with [CompileSchema] and
// [CompileInputSchema] into a [Schema], which validates JSON and coerces the arguments of a
// call where that loses nothing. [Store] keeps definitions as one JSON file each, shared
// safely between processes.
//
// Everything here reads and writes raw JSON: no number is converted to float64, and no
// object loses its key order.
//
// Files: name.go (names), value.go (strict JSON reading), schema.go, resolve.go and cost.go
// (compiling), schemas.go (compiled schemas), meter.go (limiting the work of checking), evaluate.go, evaluate_parts.go,
// evaluate_types.go and evaluate_refs.go (applying a schema), pattern.go and equal.go (the
// expensive parts of that), violation.go and describe.go (descriptions of violations),
// coerce.go, nulls.go and defaults.go (arguments), limits.go (the limits of a tool), durable.go
// (runs that outlive their process), permissions.go (what a tool may call), unseen.go (definitions at which nobody has looked), hash.go (the
// identity of a definition), format.go (the file format), store.go, cache.go, room.go, count.go,
// dir.go and watch.go (the directory), history.go (versions), shared.go and countfile.go (tools
// that several machines share).
//
// Package tools/bundle exports and imports definitions.
//
// The package does not import any package in host.
package tools

import (
	"encoding/json"
	"slices"
	"time"
)

// Definition is one saved composite tool.
//
// The byte slices of a definition from a [Store] are shared with other callers and must not
// be changed.
type Definition struct {
	// Name is the tool's name and, with ".json" added, that of its file; see [CheckName].
	Name string
	// Description is the text by which agents choose the tool. It may be empty.
	Description string
	// InputSchema is the JSON Schema of the call's arguments, an object whose root "type"
	// is "object". Key order and number literals are kept; white space between tokens is
	// not.
	InputSchema json.RawMessage
	// OutputSchema is the JSON Schema of the script's result, kept like InputSchema; nil if
	// the tool has none.
	OutputSchema json.RawMessage
	// Limits are the tool's own limits; the zero value means those of the configuration.
	Limits Limits
	// Durability says whether runs outlive the process that makes them.
	Durability
	// Permissions say what the tool may call; nil if that is not known. It is derived
	// by the caller of [Store.Save].
	Permissions *Permissions
	// Labels are those of the session that has saved the tool: names such as "private" of
	// what it was given before. The code may depend on that. Nil for none.
	Labels []string
	// Code is the Starlark script. It is never parsed here: untrusted source is parsed only
	// in the sandbox.
	Code string
	// Metadata is maintained by the store, see [Store.Save].
	Metadata Metadata
	// Extra holds the members of the file that this program does not know, in file order,
	// so that nothing is lost when a file from a later version is rewritten. In
	// [Store.Save], nil keeps those that the file has.
	Extra []Member

	// schemas has the compiled schemas of definitions from a [Store]; nil for others.
	schemas *Schemas
}

// Input returns the compiled InputSchema. For a definition from a [Store] it is compiled when it
// is needed first, after a turn, if that is not nil; for others on each call. The error is a
// [*SchemaError].
func (d *Definition) Input(turn Turn) (*Schema, error) {
	if d.schemas == nil {
		return CompileInputSchema(d.InputSchema, "inputSchema")
	}
	return d.schemas.Input(d.InputSchema, "inputSchema", turn)
}

// Output is like Input for the OutputSchema; it returns nil, nil if there is none.
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

// Metadata says when a tool was created and how often it ran. All times are in UTC.
type Metadata struct {
	// Created and Modified are written in RFC 3339. If a file lacks them, they are set to
	// its modification time.
	Created, Modified time.Time
	// ExecutionCount is the number of executions recorded by all processes, including those
	// of this process that are not on disk yet.
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
