package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// builtinTool is a row of the table of built-in tools.
type builtinTool struct {
	// name is reserved, whether the tool is switched on or not: no other tool can have the same
	// name, or a name that differs only in case. A script that uses the name gets an error saying
	// that only agents can call the tool.
	name string
	// define returns the definition for agents. code is the description of a parameter for a
	// script, as JSON.
	define func(name string, code []byte) mcp.Tool
	// call gets arguments that match the inputSchema. The error is a *compose.Failure, or comes
	// from a bug in this program.
	call func(h *Handler, ctx context.Context, args []byte, call route.Call) (wire.Reply, error)
	// saves: the tool changes saved tools. Clients with save = false in the configuration do not
	// get the tool.
	saves bool
	// setting is the key in [builtins] that switches the tool off; "": always on.
	setting string
	// gated: the tool itself asks whether the call is allowed.
	gated bool
	// works reports whether the Options have everything that the tool needs; nil: always.
	works func(*Options) bool
	// turns are the turns that a call takes; nil: none.
	turns func(*Options) *budget.Turns
}

// table returns the table of all built-in tools, in the order for agents. README.md,
// docs/configuration.md, config.BuiltinSwitches and scripts/endtoend/lists.js repeat parts of the
// table; TestTable compares them.
func table() []builtinTool {
	searches := func(o *Options) bool { return o.Directory != nil }
	plans := func(o *Options) bool { return o.Planner != nil }
	records := func(o *Options) bool { return o.Runs != nil }
	searching := func(o *Options) *budget.Turns { return o.Searching }
	reading := func(o *Options) *budget.Turns { return o.Reading }
	return []builtinTool{
		{name: "save_tool", define: saveTool, call: (*Handler).save, saves: true},
		{name: "list_saved_tools", define: listTools, call: (*Handler).list},
		{name: "show_saved_tool", define: showTool, call: (*Handler).show},
		{name: "delete_saved_tool", define: deleteTool, call: (*Handler).delete, saves: true},
		{name: compose.EvalName, define: evalTool, call: (*Handler).eval},
		{name: "search_tools", define: searchTools, call: (*Handler).search, works: searches, turns: searching},
		{name: "describe_tool", define: describeTool, call: (*Handler).describe, works: searches, turns: searching},
		{name: "health_check", define: healthTool, call: (*Handler).health, works: func(o *Options) bool { return o.Health != nil }},
		{name: "test_tool", define: testTool, call: (*Handler).test, setting: "test_tool", works: func(o *Options) bool { return o.DryRunner != nil }},
		{name: "plan_tool", define: planTool, call: (*Handler).plan, setting: "plans", works: plans},
		{name: "apply_plan", define: applyTool, call: (*Handler).apply, setting: "plans", gated: true, works: plans},
		{name: "list_runs", define: listRunsTool, call: (*Handler).listRuns, setting: "runs", works: records, turns: reading},
		{name: "show_run", define: showRunTool, call: (*Handler).showRun, setting: "runs", works: records, turns: reading},
	}
}

// on reports whether the tool is offered to agents.
func (t *builtinTool) on(o *Options) bool {
	return (t.setting == "" || o.Switches.On(t.setting)) && (t.works == nil || t.works(o))
}

// names are the names of all built-in tools, whether they are on or not.
var names []string

func init() { // the handlers in the table use names
	for _, t := range table() {
		names = append(names, t.name)
	}
}

// Reserved returns the built-in tool, on or off, whose name equals name under Unicode case folding,
// because people and models would confuse the two; "" if no tool matches.
func Reserved(name string) string {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return n
		}
	}
	return ""
}

// Names returns the names of all built-in tools, whether they are on or not.
func Names() []string { return slices.Clone(names) }

// Mentioned returns the names of built-in tools in the code of a script; see
// compose.Options.AgentTools.
func Mentioned(code string) []string {
	var found []string
	for _, n := range names {
		if strings.Contains(code, n) {
			found = append(found, n)
		}
	}
	return found
}

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

// dialect tells agents what scripts can do. The text is short, because each list of tools has it
// once: in the description of eval_starlark's code.
const dialect = `Python without input and output, with re, datetime, collections and more of its library. The script is the body of a function: it may return at top level; without return, the value of the last line is the result if that is an expression.
- params holds the arguments: params.name or params["name"].
- server.tool({"key": value}) or server.tool(key=value) calls a tool. Characters that identifiers cannot have become _ (search-issues: server.search_issues); server["search-issues"]({...}) takes the exact name.
- A call returns the tool's structuredContent; without that, its text, parsed if it is JSON; or else its content blocks. server.tool.raw({...}) returns the whole MCP result. A failed call raises ToolError (e.message, e.details). timeout=5 after the dict limits its seconds. Saved tools are tools.name({...}).
- parallel([lambda: a.x({...}), lambda: b.y({...})]) and parallel_map(f, items, limit=8) overlap their calls, results in order; errors="collect" puts errors into the list (is_error(x)).
- undo(server.tool, {...}) is called if the script fails later; commit() drops such calls.
- d.key means d["key"], but methods such as d.items come first. type(x) is text for built-in types.
- Return content.image(base64, mime_type), content.text, audio, resource or link, or blocks of a raw result, to answer with content instead of JSON.
- Missing: with, async, eval, threads, complex numbers. Lists cannot change while a loop goes over them.
Example:
issues = github.search_issues({"query": params.query})
return [{"title": i.title, "url": i.html_url} for i in issues["items"]]`

// sameCode is the description of other parameters for scripts.
const sameCode = "A script, as the code of eval_starlark."

// codeDescription returns the description of a parameter for a script.
func codeDescription(servers []string) string {
	if len(servers) == 0 {
		return dialect + "\nNo servers are configured here."
	}
	return dialect + "\nServers here: " + strings.Join(servers, ", ") + "."
}

// howToSave is the part of the instructions about saving tools. Clients without the right to save
// tools get notToSave instead.
const (
	howToSave = `4. save_tool keeps it as a tool, at once in your list. Give it a description and an inputSchema; what varies belongs in params.`
	notToSave = `4. You may not save scripts as tools here.`
)

// Instructions returns this program's own instructions for models in the result of initialize. They
// are enough to write a working script. maySave says whether the client may save tools.
func Instructions(maySave bool) string {
	if maySave {
		return instructionsBegin + howToSave + instructionsEnd
	}
	return instructionsBegin + notToSave + instructionsEnd
}

const instructionsBegin = `This server shows the tools of several MCP servers as its own (server__tool). It also runs scripts that call them, and keeps scripts as tools. Write a script when a task takes several calls whose intermediate results you need not see.

1. search_tools finds tools of all servers, also those that are not in your list; scripts can call them.
2. describe_tool("server.tool") shows signature, arguments, an example, and what it returns.
3. eval_starlark runs a script; its calls are real. test_tool runs it against answers that you invent.
`

const instructionsEnd = `
5. If a run fails, the error has a line and a hint; show_run (ids: list_runs) has every call and answer.

Scripts are Python, with re, datetime, collections and more of its library. What differs:
- Tools are functions: server__tool of your list is server.tool({"key": value}) or server.tool(key=value). Hyphens and the like become _ (my-files: my_files); my_files["read-file"]({...}) takes exact names. A call returns the structured content, else the text (parsed if JSON), else the content blocks; timeout=5 after the dict limits its seconds. tools.name({...}) calls a saved tool.
- params has the arguments; return, anywhere, gives the result. d.key means d["key"], but methods come first: write d["items"].
- A failed call raises ToolError (e.type, e.message, e.details). Limits cannot be caught.
- parallel([lambda: a.x(), lambda: b.y()]) and parallel_map(fn, items, limit=8) overlap their calls, results in order; errors="collect" keeps errors in the list (is_error(x)). undo(server.tool, {...}) is called if the script fails later.
- There is no with, async or eval, no file or network; time stands still.

Example:
def open_issues(repo):
    found = github.list_issues({"owner": params.owner, "repo": repo, "state": "OPEN"}, timeout=10)
    return {"repo": repo, "titles": [i.title for i in found.issues]}

answers = parallel_map(open_issues, params.repos, errors="collect")
return [a for a in answers if not is_error(a)]`
