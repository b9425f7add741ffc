package compose

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// ToolDefinition is the MCP tool definition of a saved tool, as agents see it.
//
// The structuredContent of a result must match an advertised outputSchema (MCP
// 2025-11-25, server/tools), and ours is {result, logs, executionTime,
// toolCalls}: so it is a schema of that with the tool's own for result. A
// schema that points into itself from its root ("#/$defs/x") would point
// elsewhere there, and is not advertised; results are checked against it all
// the same.
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
	properties.raw("logs", []byte(`{"type":"array","items":{"type":"string"}}`))
	properties.raw("executionTime", []byte(`{"type":"number","description":"milliseconds"}`))
	properties.raw("toolCalls", []byte(`{"type":"array","items":{"type":"object"}}`))
	root.raw("type", []byte(`"object"`))
	root.raw("properties", properties.bytes())
	root.raw("required", []byte(`["result","logs","executionTime","toolCalls"]`))
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

// maxSchemas is how many compiled schemas are kept.
const maxSchemas = 512

// schemaCache keeps compiled schemas by their source. The zero value is ready
// and safe for concurrent use.
type schemaCache struct {
	mu       sync.Mutex
	compiled map[schemaKey]*tools.Schema
}

type schemaKey struct{ what, raw string }

func (c *schemaCache) input(raw json.RawMessage) (*tools.Schema, error) {
	return c.get(schemaKey{"inputSchema", string(raw)}, tools.CompileInputSchema)
}

func (c *schemaCache) output(raw json.RawMessage) (*tools.Schema, error) {
	return c.get(schemaKey{"outputSchema", string(raw)}, tools.CompileSchema)
}

func (c *schemaCache) get(key schemaKey, compile func([]byte, string) (*tools.Schema, error)) (*tools.Schema, error) {
	c.mu.Lock()
	s := c.compiled[key]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := compile([]byte(key.raw), key.what)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compiled == nil || len(c.compiled) >= maxSchemas {
		c.compiled = map[schemaKey]*tools.Schema{} // tools in use come back at once
	}
	c.compiled[key] = s
	return s, nil
}
