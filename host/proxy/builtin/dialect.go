package builtin

import "strings"

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
