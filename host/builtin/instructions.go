package builtin

// howToSave is the part of the instructions about saving tools. Clients that may not save
// tools get notToSave instead.
const (
	howToSave = `4. save_tool keeps it as a tool, at once in your list. Give it a description and an inputSchema; what varies belongs into params.`
	notToSave = `4. You may not save scripts as tools here.`
)

// Instructions returns our own instructions for models in the result of initialize. They
// are enough to write a script that runs. maySave says whether the client may save
// tools.
func Instructions(maySave bool) string {
	if maySave {
		return instructionsBegin + howToSave + instructionsEnd
	}
	return instructionsBegin + notToSave + instructionsEnd
}

const instructionsBegin = `This server shows the tools of several other MCP servers as its own (server__tool), runs scripts that call them, in Python without input and output (Starlark underneath), and keeps scripts as tools of their own. Write one when a task takes several calls whose intermediate results you need not see.

1. search_tools("words") finds tools of all servers, also those that are not in your list; scripts can call them.
2. describe_tool("server.tool") shows signature, arguments, an example, what comes back.
3. eval_starlark runs a script; its calls are real. test_tool runs it against answers that you invent.
`

const instructionsEnd = `
5. If a run fails, the error has line and hint; show_run (ids: list_runs) has every call and answer.

What differs from Python:
- What your list calls server__tool is server.tool({"key": value}) or server.tool(key=value). Hyphens and the like become _ (my-files: my_files); my_files["read-file"]({...}) takes exact names. Seconds to wait at most stand beside a dict: server.tool({...}, timeout=5). It gives the structured content, else the text (parsed if JSON), else the content blocks; server.tool.raw({...}) the whole MCP result. tools.name({...}) calls a saved tool.
- params has the arguments. d.key is d["key"], but methods win: write d["items"], d["keys"]. return, anywhere, gives the result.
- A failed call raises ToolError (e.type, e.message, e.details). Limits cannot be caught.
- parallel([lambda: a.x(), lambda: b.y()]), parallel_map(fn, items, limit=8): calls overlap, results in order; errors="collect" keeps errors in the list (is_error(x)). undo(server.tool, {...}) is called if the script fails later.
- There is no with, async, match, eval, file, network or sleep.

Example:
def open_issues(repo):
    found = github.list_issues({"owner": params.owner, "repo": repo, "state": "OPEN"}, timeout=10)
    return {"repo": repo, "titles": [i.title for i in found.issues]}

answers = parallel_map(open_issues, params.repos, errors="collect")
return [a for a in answers if not is_error(a)]`
