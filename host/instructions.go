package host

// instructions go to the model with the answer to initialize.
const instructions = `This server shows the tools of several other MCP servers as its own (named server__tool) and lets you save composite tools: Starlark scripts (a small Python dialect) that call those tools and run in a sandbox. Use one when a task takes several calls whose intermediate results you do not need to see.

Try a script with eval_starlark; keep it with save_tool, after which it is a tool like any other.

In a script:
- Call a tool as server.tool({"key": value}) or server.tool(key=value). Hyphens in names become underscores: server "my-files", tool "read-file" is my_files.read_file(...). Index form takes the exact name: my_files["read-file"]({...}).
- A call returns the tool's structured content, else its JSON, else its text. server.tool.raw({...}) returns the whole MCP result. A failing tool raises ToolError: try/except Error as e, e.message, e.type, e.details.
- params holds the arguments: params.name or params["name"]; params.get("name", default) for optional ones. JSON objects are dicts with attribute access.
- parallel([lambda: a.x({...}), lambda: b.y({...})]) and parallel_map(f, items, limit=8) overlap their calls. tools.name({...}) calls a saved tool. undo(server.tool, {...}) names a call that takes back what was done if the script fails later.
- return a value at top level: it becomes the result. print(...) goes to the result's logs.
- Modules json (encode, decode, indent) and math are there. f-strings work. There is no import, class, with, file, network, clock or random.

Example:
issues = github.search_issues({"query": params.query})
return [{"title": i.title, "url": i.html_url} for i in issues["items"][:5]]`
