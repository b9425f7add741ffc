package builtin

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
