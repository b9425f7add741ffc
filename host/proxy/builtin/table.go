package builtin

import (
	"context"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
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
