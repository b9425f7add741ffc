package builtin

import (
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// MaxCode is the largest size of a saved script, in bytes.
const MaxCode = 256 << 10

const nameProperty = `"name": {"type": "string", "description": "Name of the saved tool."}`

func saveTool(name string, code []byte) mcp.Tool {
	return define(name, "Save composite tool",
		"Save a script as a tool, which is listed and can be called at once. A saved tool of that name is replaced. Try the script with eval_starlark first.",
		fmt.Sprintf(`{
			"type": "object",
			"properties": {
				"name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "description": "No other tool may have it."},
				"description": {"type": "string", "minLength": 1, "maxLength": 16384, "description": "What the tool does and returns."},
				"inputSchema": {"type": "object", "description": "JSON Schema of the arguments (params); type must be object."},
				"code": {"type": "string", "minLength": 1, "description": %s},
				"outputSchema": {"type": "object", "description": "JSON Schema that results must match. Not for tools that return images."},
				"limits": {
					"type": "object",
					"description": "Limits of a run, below those configured.",
					"properties": {
						"fuel": {"type": "integer", "minimum": %d, "description": "Instructions; receipts of results have the number."},
						"memory": {"type": ["string", "integer"], "description": "\"64MB\", or bytes."},
						"timeout": {"type": ["string", "integer"], "description": "\"5s\", or milliseconds."},
						"calls": {"type": "integer", "minimum": 1}
					},
					"additionalProperties": false
				},
				"durable": {"type": "boolean", "description": "Runs survive a crash."},
				"inDoubt": {"enum": ["fail", "undo", "ask"]},
				"permissions": {"type": "array", "items": {"type": "string"}, "maxItems": 1000, "description": "Narrows what it may call: github.get_*"}
			},
			"required": ["name", "description", "inputSchema", "code"],
			"additionalProperties": false
		}`, code, tools.MinFuel),
		`{
			"type": "object",
			"properties": {
				"status": {"enum": ["created", "updated"]},
				"name": {"type": "string"},
				"created": {"type": "string"},
				"modified": {"type": "string"},
				"permissions": {"type": "array", "items": {"type": "string"}, "description": "What the tool may call."},
				"warnings": {"type": "array", "description": "Probable mistakes in the script; it is saved anyway.", "items": {
					"type": "object",
					"properties": {"line": {"type": "integer"}, "column": {"type": "integer"}, "message": {"type": "string"}},
					"required": ["line", "column", "message"]
				}}
			},
			"required": ["status", "name", "created", "modified"]
		}`,
		hints{destructive: true, idempotent: true})
}

func listTools(name string, _ []byte) mcp.Tool {
	return define(name, "List saved tools",
		"List all saved tools with their inputSchema.",
		`{"type": "object", "properties": {}, "additionalProperties": false}`,
		`{
			"type": "object",
			"properties": {
				"tools": {"type": "array", "items": {
					"type": "object",
					"properties": {
						"name": {"type": "string"},
						"description": {"type": "string"},
						"created": {"type": "string"},
						"modified": {"type": "string"},
						"inputSchema": {"type": "object"}
					},
					"required": ["name", "description", "created", "modified", "inputSchema"]
				}},
				"problems": {"type": "array", "description": "Files of saved tools that cannot be used.", "items": {
					"type": "object",
					"properties": {"name": {"type": "string"}, "path": {"type": "string"}, "message": {"type": "string"}},
					"required": ["name", "path", "message"]
				}}
			},
			"required": ["tools"]
		}`,
		hints{readOnly: true, idempotent: true})
}

func showTool(name string, _ []byte) mcp.Tool {
	return define(name, "Show saved tool",
		"Show the definition of a saved tool, with its code.",
		`{"type": "object", "properties": {`+nameProperty+`}, "required": ["name"], "additionalProperties": false}`,
		`{
			"type": "object",
			"properties": {
				"version": {"type": "string"},
				"name": {"type": "string"},
				"description": {"type": "string"},
				"inputSchema": {"type": "object"},
				"outputSchema": {"type": "object"},
				"limits": {"type": "object"},
				"permissions": {"type": "object"},
				"code": {"type": "string"},
				"metadata": {"type": "object", "properties": {
					"created": {"type": "string"},
					"modified": {"type": "string"},
					"executionCount": {"type": "integer"},
					"lastExecuted": {"type": "string"}
				}}
			},
			"required": ["version", "name", "description", "inputSchema", "code", "metadata"]
		}`,
		hints{readOnly: true, idempotent: true})
}

func deleteTool(name string, _ []byte) mcp.Tool {
	return define(name, "Delete saved tool",
		"Delete a saved tool. A person can restore it.",
		`{"type": "object", "properties": {`+nameProperty+`}, "required": ["name"], "additionalProperties": false}`,
		`{
			"type": "object",
			"properties": {"status": {"const": "deleted"}, "name": {"type": "string"}},
			"required": ["status", "name"]
		}`,
		hints{destructive: true, idempotent: true})
}

func evalTool(name string, code []byte) mcp.Tool {
	return define(name, "Run a script",
		"Run a script without saving it. Its tool calls are real.",
		fmt.Sprintf(`{
			"type": "object",
			"properties": {
				"code": {"type": "string", "minLength": 1, "description": %s},
				"params": {"type": "object", "description": "The value of params in the script.", "default": {}}
			},
			"required": ["code"],
			"additionalProperties": false
		}`, code),
		"", // a script can return anything, and images have no structuredContent
		hints{destructive: true, openWorld: true})
}

func searchTools(name string, _ []byte) mcp.Tool {
	return define(name, "Search tools",
		"Find tools of all servers by words, also those that are not in your list and only scripts can call.",
		fmt.Sprintf(`{
			"type": "object",
			"properties": {
				"query": {"type": "string", "maxLength": 1000, "description": "What the tool should do; without: all tools."},
				"server": {"type": "string", "description": "Only tools of this server; \"%s\" for the saved ones."},
				"limit": {"type": "integer", "minimum": 1, "maximum": %d, "default": %d}
			},
			"additionalProperties": false
		}`, savedServer, maxFound, defaultFound),
		`{
			"type": "object",
			"properties": {
				"tools": {"type": "array", "items": {
					"type": "object",
					"properties": {
						"name": {"type": "string", "description": "What you call it by; absent if only scripts can call it."},
						"script": {"type": "string", "description": "What scripts call it by; absent if they cannot."},
						"description": {"type": "string"}
					}
				}},
				"total": {"type": "integer"},
				"servers": {"type": "array", "items": {
					"type": "object",
					"properties": {"server": {"type": "string"}, "tools": {"type": "integer"}},
					"required": ["server", "tools"]
				}},
				"absent": {"type": "array", "description": "Servers that are not available now.", "items": {
					"type": "object",
					"properties": {"server": {"type": "string"}, "state": {"type": "string"}, "why": {"type": "string"}},
					"required": ["server", "state", "why"]
				}}
			},
			"required": ["tools", "total"]
		}`,
		hints{readOnly: true, idempotent: true})
}

func describeTool(name string, _ []byte) mcp.Tool {
	return define(name, "Describe tool",
		"Show how to call a tool: signature, arguments, an example, what it returns.",
		`{
			"type": "object",
			"properties": {"name": {"type": "string", "minLength": 1, "maxLength": 500, "description": "As in your list, or server.tool as in scripts."}},
			"required": ["name"],
			"additionalProperties": false
		}`,
		`{
			"type": "object",
			"properties": {
				"name": {"type": "string", "description": "What you call it by; absent if only scripts can call it."},
				"script": {"type": "string", "description": "What scripts call it by; absent if they cannot."},
				"signature": {"type": "string"},
				"description": {"type": "string"},
				"arguments": {"type": "array", "items": {"type": "string"}},
				"conditions": {"type": "array", "items": {"type": "string"}},
				"example": {"type": "string"},
				"hints": {"type": "array", "items": {"type": "string"}},
				"inputSchema": {},
				"outputSchema": {},
				"unavailable": {"type": "string", "description": "Why it cannot be called now."}
			},
			"required": ["signature", "example"]
		}`,
		hints{readOnly: true, idempotent: true})
}

// orError returns an outputSchema that also accepts the structuredContent of failures. The official
// TypeScript client validates failures too, and would show the model the mismatch instead of the
// error.
func orError(output []byte) json.RawMessage {
	schema := output
	set := func(value []byte, path ...string) {
		var err error
		if schema, err = wire.Set(schema, value, path...); err != nil {
			panic(fmt.Sprintf("outputSchema %s: %v", output, err)) // a bug in our own text
		}
	}
	if _, taken := wire.Get(output, "properties", "error"); taken { // of an answer, too
		set([]byte(`["string","object"]`), "properties", "error", "type")
	} else {
		set([]byte(`{"type":"object"}`), "properties", "error")
	}
	if required, ok := wire.Get(output, "required"); ok {
		set(fmt.Appendf(nil, `[{"required":%s},{"required":["error"]}]`, required), "anyOf")
		schema, _ = wire.Delete(schema, "required") // an object, or set would have failed
	}
	return schema
}

// hints are a tool's annotations (MCP 2025-11-25, schema.ts, ToolAnnotations).
type hints struct{ readOnly, destructive, idempotent, openWorld bool }

func define(name, title, description, input, output string, h hints) mcp.Tool {
	t := mcp.NewToolWithRawSchema(name, description, json.RawMessage(input))
	t.Title = title
	if output != "" {
		t.RawOutputSchema = orError([]byte(output))
	}
	t.Annotations = mcp.ToolAnnotation{
		ReadOnlyHint:    mcp.ToBoolPtr(h.readOnly),
		DestructiveHint: mcp.ToBoolPtr(h.destructive),
		IdempotentHint:  mcp.ToBoolPtr(h.idempotent),
		OpenWorldHint:   mcp.ToBoolPtr(h.openWorld),
	}
	return t
}

// Definition returns the raw definition of a built-in tool, without its list of servers; nil for an
// unknown tool.
func Definition(name string) []byte {
	for _, t := range table() {
		if t.name == name {
			return wire.Marshal(t.define(name, wire.Quote(sameCode)))
		}
	}
	return nil
}
