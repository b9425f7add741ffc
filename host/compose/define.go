package compose

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// ToolDefinition is the MCP tool definition of a saved tool, as agents see it.
//
// The structuredContent of a result must match an advertised outputSchema (MCP
// 2025-11-25, server/tools), and ours is {result, logs, executionTime,
// toolCalls}: so it is a schema of that with the tool's own for result. Instead of
// result there is content when the script has returned content blocks, and error
// when it failed: the official TypeScript client holds errors against the schema,
// too. A schema that points into itself from its root ("#/$defs/x") would point
// elsewhere there, and is not advertised; results are checked against it all the
// same.
func ToolDefinition(def tools.Definition) []byte {
	o := object{}
	o.raw("name", wire.Quote(def.Name))
	o.text("description", def.Description)
	o.raw("inputSchema", def.InputSchema)
	if s := advertisedOutput(def.OutputSchema); s != nil {
		o.raw("outputSchema", s)
	}
	return o.bytes()
}

func advertisedOutput(schema []byte) []byte {
	if schema == nil || !movable(schema) {
		return nil
	}
	properties, root := object{}, object{}
	if dialect, ok := wire.Get(schema, "$schema"); ok {
		// Only a document's root may say it.
		if inner, err := wire.Delete(schema, "$schema"); err == nil {
			root.raw("$schema", dialect)
			schema = inner
		}
	}
	properties.raw("result", schema)
	properties.raw("content", []byte(`{"type":"array","items":{"type":"string"},"description":"Instead of result: what the content blocks are that the script returned."}`))
	properties.raw("error", []byte(`{"type":"object","description":"Instead of result: why the script failed."}`))
	properties.raw("logs", []byte(`{"type":"array","items":{"type":"string"}}`))
	properties.raw("executionTime", []byte(`{"type":"number","description":"milliseconds"}`))
	properties.raw("toolCalls", []byte(`{"type":"array","items":{"type":"object"}}`))
	properties.raw("moreCalls", []byte(`{"type":"object","description":"How many calls toolCalls does not list, by tool."}`))
	root.raw("type", []byte(`"object"`))
	root.raw("properties", properties.bytes())
	root.raw("anyOf", []byte(`[{"required":["result"]},{"required":["content"]},{"required":["error"]}]`))
	return root.bytes()
}

// movable tells whether schema means the same inside another one: it has no
// reference by JSON pointer to itself.
func movable(schema []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(schema), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		tok, err := d.ReadToken()
		if err != nil { // io.EOF, or what the compiler of the schema refused
			return true
		}
		if tok.Kind() != '"' {
			continue
		}
		kind, n := d.StackIndex(d.StackDepth())
		if name := tok.String(); kind != '{' || n%2 == 0 || !strings.HasPrefix(name, "$") || !strings.HasSuffix(strings.ToLower(name), "ref") {
			continue
		}
		if d.PeekKind() != '"' {
			continue
		}
		ref, err := d.ReadToken()
		if s := ref.String(); err != nil || s == "#" || strings.HasPrefix(s, "#/") {
			return false
		}
	}
}
