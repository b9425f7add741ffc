// Package tools is the composite-tool domain: what a saved tool is, which
// names and JSON Schemas it may have, how the arguments of a call are checked
// against its schema, and the directory that saved tools live in.
//
// A tool is a [Definition]. Its schemas are compiled with [CompileSchema] and
// [CompileInputSchema] into a [Schema], which validates JSON and coerces the
// arguments of a call where that loses nothing. [Store] keeps definitions as
// one JSON file each, shared safely between processes.
//
// Everything here takes raw JSON bytes and gives raw JSON bytes back: no
// number passes through float64 and no object loses its key order.
//
// Files: name.go (names), value.go (strict JSON reading), schema.go, resolve.go
// and cost.go (compiling), meter.go (how much work checking is), evaluate.go,
// evaluate_parts.go, evaluate_types.go and evaluate_refs.go (applying a schema),
// pattern.go and equal.go (what takes longest of that), violation.go and
// describe.go (what is wrong with a value, in words), coerce.go and defaults.go
// (arguments), limits.go (what a tool may use), hash.go (what
// identifies a definition), format.go (the file format), store.go, cache.go,
// count.go, dir.go and watch.go (the directory), history.go (versions).
//
// Package tools/bundle has files that definitions travel in.
//
// The package imports nothing of the host.
package tools

import (
	"bytes"
	"encoding/json"
	"time"
)

// Definition is one saved composite tool.
//
// The byte slices of a definition that a [Store] gave out are shared with
// other callers: read them, do not write to them.
type Definition struct {
	// Name is the tool's name and, with ".json" added, its file's; see
	// [CheckName].
	Name string
	// Description is the text that agents choose the tool by. May be empty.
	Description string
	// InputSchema is the JSON Schema of the call's arguments, an object whose
	// root "type" is "object". Key order and number literals are as they were
	// given; white space between tokens is not kept.
	InputSchema json.RawMessage
	// OutputSchema is the JSON Schema of the script's result, kept like
	// InputSchema; nil when the tool has none.
	OutputSchema json.RawMessage
	// Limits are the tool's own; zero for those of the configuration.
	Limits Limits
	// Code is the Starlark script. It is never parsed here: untrusted source
	// is only read inside the sandbox.
	Code string
	// Metadata is kept by the store, see [Store.Save].
	Metadata Metadata
	// Extra holds the members of the file that this program does not know, in
	// file order, so that a file written by a later version loses nothing when
	// it is rewritten. In [Store.Save], nil means: keep what the file has.
	Extra []Member

	// What a Store has compiled already; see Input.
	input, output compiled
}

// compiled is a schema and the bytes it was made of.
type compiled struct {
	raw    json.RawMessage
	schema *Schema
}

func (c *compiled) of(raw json.RawMessage) *Schema {
	if c.schema != nil && bytes.Equal(c.raw, raw) {
		return c.schema
	}
	return nil
}

// Input returns the compiled InputSchema. A definition that came from a
// [Store] has it already; for others it is compiled each time. The error is a
// [*SchemaError].
func (d *Definition) Input() (*Schema, error) {
	if s := d.input.of(d.InputSchema); s != nil {
		return s, nil
	}
	return CompileInputSchema(d.InputSchema, "inputSchema")
}

// Output is Input for the OutputSchema; nil, nil if there is none.
func (d *Definition) Output() (*Schema, error) {
	if d.OutputSchema == nil {
		return nil, nil
	}
	if s := d.output.of(d.OutputSchema); s != nil {
		return s, nil
	}
	return CompileSchema(d.OutputSchema, "outputSchema")
}

// compileSchemas checks both schemas and keeps what they compile to.
func (d *Definition) compileSchemas() error {
	in, err := d.Input()
	if err != nil {
		return err
	}
	out, err := d.Output()
	if err != nil {
		return err
	}
	d.input, d.output = compiled{d.InputSchema, in}, compiled{d.OutputSchema, out}
	return nil
}

// Metadata says when a tool was made and how often it ran. All times are UTC.
type Metadata struct {
	// Created and Modified are written in RFC 3339. A file that lacks them
	// gets its modification time on reading.
	Created, Modified time.Time
	// ExecutionCount is the number of executions ever recorded, by all
	// processes, including those of this process that are not yet on disk.
	ExecutionCount int64
	// LastExecuted is zero, and absent from the file, before the first
	// execution.
	LastExecuted time.Time
	// Extra holds unknown members of the metadata object, like
	// Definition.Extra.
	Extra []Member
}

// Member is one name and raw value of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// sameToAgents reports whether an agent would see no difference between two
// definitions: counts and times do not matter to it.
func (d *Definition) sameToAgents(o *Definition) bool {
	return d.Changes(o) == nil
}
