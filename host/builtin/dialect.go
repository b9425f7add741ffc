package builtin

import "strings"

// dialect tells agents what scripts can do. It is short, because it is part of each
// list of tools.
const dialect = `Starlark, a deterministic subset of Python. The script is the body of a function: it may return at top level; without return, the value of a last line that is an expression is the result.
- params holds the arguments: params.name or params["name"].
- Call tools as functions of their server, with one dict or with keywords: server.tool({"key": value}) or server.tool(key=value). In names, characters that Python identifiers cannot have become _ (search-issues: server.search_issues); server["search-issues"]({...}) takes the exact name.
- A call returns the tool's structuredContent; without that, its text, parsed if it is JSON; or else its list of content blocks. server.tool.raw({...}) returns the whole MCP result. A tool that fails raises ToolError. server.tool({...}, timeout=5) has seconds of its own. Saved tools are tools.name({...}).
- parallel([lambda: a.x({...}), lambda: b.y({...})]) and parallel_map(f, items, limit=8) overlap their calls, results in order; errors="collect" puts errors into the list (is_error(x)).
- undo(server.tool, {...}) names a call that takes something back if the script fails later; commit() keeps what was done.
- Dicts answer to d.key like to d["key"] (methods such as d.items come first).
- Return content.image(base64, mime_type), content.text, audio, resource or link, or blocks of a raw result, to answer with content instead of JSON.
- print(...) goes to the logs. Modules: json (encode, decode, indent) and math. Also def, lambda, if, for, while, comprehensions, recursion, sets, f-strings, try/except Error as e (e.message, e.type, e.details)/finally, raise, fail(message).
- Not there: import, load, class, with, **, is (but x is None works); files, network, clock, random.
Example:
issues = github.search_issues({"query": params.query})
return [{"title": i.title, "url": i.html_url} for i in issues["items"]]`

// codeDescription returns the description of a parameter that takes a script.
func codeDescription(servers []string) string {
	if len(servers) == 0 {
		return dialect + "\nNo servers are configured here."
	}
	return dialect + "\nServers here: " + strings.Join(servers, ", ") + "."
}
