package compose

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/guard/permissions"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Entry returns a saved tool for the catalog. The annotations of the tool follow from the
// annotations and lists of the tools in its permissions.
func Entry(def tools.Definition) catalog.Entry {
	e := catalog.Entry{Name: def.Name, Definition: ToolDefinition(def, permissions.Worst)}
	if !def.Permissions.Of(def.Code) {
		return e
	}
	e.Version = string(def.Permissions.JSON())
	e.Define = func(now *catalog.Lookup) []byte {
		return ToolDefinition(def, permissions.OfTool(def.Permissions, now, func(server, tool string) permissions.Hints {
			return now.Once(server+"."+tool, func() any { return permissions.HintsOf(now.Definition(server, tool)) }).(permissions.Hints)
		}))
	}
	return e
}

// DefinitionWith returns the tool definition of a saved tool with the annotations derived from the
// tools of the given servers.
func DefinitionWith(def tools.Definition, servers permissions.Servers) []byte {
	if !def.Permissions.Of(def.Code) {
		return ToolDefinition(def, permissions.Worst)
	}
	return ToolDefinition(def, permissions.OfTool(def.Permissions, servers, func(server, tool string) permissions.Hints {
		return permissions.HintsOf(servers.Definition(server, tool))
	}))
}

// ToolDefinition returns the MCP tool definition of a saved tool, as agents see the tool, with
// annotations from hints.
//
// The structuredContent of a result must match an advertised outputSchema (MCP 2025-11-25,
// server/tools). The structuredContent of a saved tool is {result, logs, executionTime, toolCalls},
// so the advertised schema describes this object, with the tool's own schema for result. The member
// content replaces result if the script returned content blocks, and error is present if the script
// failed: the official TypeScript client also checks errors against the schema. A schema with
// references from its root ("#/$defs/x") would not work inside another schema, and is not
// advertised; results are still checked against the schema.
func ToolDefinition(def tools.Definition, hints permissions.Hints) []byte {
	var o wire.Object
	o.Text("name", def.Name)
	o.NonEmpty("description", def.Description)
	o.Raw("inputSchema", def.InputSchema)
	if s := advertisedOutput(def.OutputSchema); s != nil {
		o.Raw("outputSchema", s)
	}
	o.Raw("annotations", hints.JSON())
	return o.Bytes()
}

func advertisedOutput(schema []byte) []byte {
	if schema == nil || !embeddable(schema) {
		return nil
	}
	var properties, root wire.Object
	if dialect, ok := wire.Get(schema, "$schema"); ok {
		// Only the root of a document may have $schema.
		if inner, err := wire.Delete(schema, "$schema"); err == nil {
			root.Raw("$schema", dialect)
			schema = inner
		}
	}
	properties.Raw("result", schema)
	properties.Raw("content", []byte(`{"type":"array","items":{"type":"string"},"description":"Instead of result: descriptions of the content blocks that the script returned."}`))
	properties.Raw("error", []byte(`{"type":"object","description":"Instead of result: why the script failed."}`))
	properties.Raw("logs", []byte(`{"type":"array","items":{"type":"string"}}`))
	properties.Raw("executionTime", []byte(`{"type":"number","description":"milliseconds"}`))
	properties.Raw("toolCalls", []byte(`{"type":"array","items":{"type":"object"}}`))
	properties.Raw("moreCalls", []byte(`{"type":"object","description":"How many calls toolCalls does not list, by tool."}`))
	root.Raw("type", []byte(`"object"`))
	root.Raw("properties", properties.Bytes())
	root.Raw("anyOf", []byte(`[{"required":["result"]},{"required":["content"]},{"required":["error"]}]`))
	return root.Bytes()
}

// embeddable reports whether schema has the same meaning inside another schema: no reference by
// JSON pointer within the schema.
func embeddable(schema []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(schema), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		tok, err := d.ReadToken()
		if err != nil { // io.EOF, or an error for the compiler of the schema to report
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
