package builtin

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/guard/permissions"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin/discover"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// searchFixture is a Directory with a real catalog.
type searchFixture struct {
	*catalog.Catalog
	sources []catalog.Source
	listed  map[string][]string // definitions by server
	saved   []tools.Definition
	own     []catalog.Entry
}

func (s *searchFixture) All() []catalog.Entry {
	all := slices.Clone(s.own)
	for _, d := range s.saved {
		all = append(all, catalog.Entry{Name: d.Name, Kind: catalog.Composite, Definition: compose.ToolDefinition(d, permissions.Worst)})
	}
	for _, source := range s.sources {
		for _, raw := range s.listed[source.Server] {
			name, _ := wire.GetString([]byte(raw), "name")
			if !source.Hides(name) {
				all = append(all, catalog.Entry{
					Name: catalog.PublicName(source.Prefix, name), Kind: catalog.Proxied, Server: source.Server, Tool: name, Definition: []byte(raw),
				})
			}
		}
	}
	return all
}

// newSearchFixture returns a Handler for two servers with tools, one of which hides its
// tools from agents, one server that is down, and a saved tool.
func newSearchFixture(t *testing.T, savedInScripts bool) *Handler {
	yes, no := func(string) bool { return true }, func(string) bool { return false }
	s := &searchFixture{
		sources: []catalog.Source{
			{Server: "git-hub", Prefix: "gh__", Exposes: yes, Hides: func(tool string) bool { return tool == "delete_repository" }},
			{Server: "files", Prefix: "files__", Exposes: no, Hides: no},
			{Server: "away", Prefix: "away__", Exposes: yes, Hides: no},
		},
		listed: map[string][]string{
			"git-hub": {
				`{"name":"search_issues","description":"Search issues. Of all repositories.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"limit":{"type":"integer","default":10},"query":{"type":"string","examples":["is:open"]}},"required":["query"]},"outputSchema":{"type":"object","properties":{"total":{"type":"integer"}},"required":["total"]}}`,
				`{"name":"create-issue","description":"Create an issue","annotations":{"destructiveHint":true},"inputSchema":{"type":"object","properties":{"z":{"maximum":9007199254740993},"a":{"multipleOf":0.10}}}}`,
				`{"name":"import","inputSchema":{"type":"object"}}`,
				`{"name":"fork.it","title":"Fork a repository","inputSchema":{"type":"object"}}`,
				`{"name":"get-x","inputSchema":{"type":"object"}}`, `{"name":"get_x","inputSchema":{"type":"object"}}`,
				`{"name":"delete_repository","description":"Delete a repository for good","inputSchema":{"type":"object"}}`,
			},
			"files": {
				`{"name":"read_file","description":"Read a file","inputSchema":{"type":"object","properties":{"path":{"type":"string","pattern":"^/"}},"required":["path"]}}`,
				`{"name":"search_issues","description":"Look for known issues of a file system","inputSchema":{"type":"object"}}`,
			},
		},
		saved: []tools.Definition{{
			Name: "issue-report", Description: "Report on issues", Code: "return 1",
			InputSchema: []byte(`{"type":"object","properties":{"days":{"type":"integer"}}}`), OutputSchema: []byte(`{"type":"array","items":{"type":"string"}}`),
		}},
	}
	s.Catalog = catalog.New(s.sources, quiet(), func(*catalog.Scope, wire.Surface, []byte) {})
	for server, definitions := range s.listed {
		var items [][]byte
		for _, d := range definitions {
			items = append(items, []byte(d))
		}
		s.SetUpstream(server, wire.Tools, items, nil)
	}
	h := New(Options{Composer: idle(), Catalog: s, Directory: s, SavedInScripts: savedInScripts, Log: quiet()})
	s.own = h.Entries()
	s.SetBuiltins(s.own)
	s.SetComposites([]catalog.Entry{{Name: "issue-report", Definition: compose.ToolDefinition(s.saved[0], permissions.Worst)}})
	return h
}

// ask calls a tool and checks the answer against the outputSchema.
func ask(t *testing.T, h *Handler, tool, arguments string) (text string, structured []byte, failed bool) {
	t.Helper()
	reply := h.CallTool(t.Context(), tool, route.Call{Params: fmt.Appendf(nil, `{"arguments":%s}`, arguments)})
	structured, _ = wire.Get(reply.Result, "structuredContent")
	isError, _ := wire.Get(reply.Result, "isError")
	for _, e := range h.Entries() {
		if e.Name == tool {
			matches(t, e.Definition, reply)
		}
	}
	return textOf(t, reply), structured, string(isError) != "false"
}

func TestSearchTools(t *testing.T) {
	h := newSearchFixture(t, true)
	for _, tt := range []struct{ arguments, text, structured string }{
		{`{"query":"search issues","limit":2}`,
			"git_hub.search_issues - Search issues. [direct: gh__search_issues]\nfiles.search_issues - Look for known issues of a file system [scripts only]\n2 more match less well.",
			`{"tools":[{"name":"gh__search_issues","script":"git_hub.search_issues","description":"Search issues."},{"script":"files.search_issues","description":"Look for known issues of a file system"}],"total":4}`},
		{`{"query":"search issues","server":"files"}`,
			"files.search_issues - Look for known issues of a file system [scripts only]", ""},
		{`{"query":"create issue","server":"git-hub","limit":1.0}`,
			"git_hub.create_issue - Create an issue [direct: gh__create-issue]\n1 more match less well.", ""},
		{`{"query":"report","server":"tools"}`, `tools["issue-report"] - Report on issues [direct: issue-report]`, ""},
		{`{"query":"fork"}`, `git_hub.fork_it - Fork a repository [direct: gh__fork_it_`, ""},
		{`{"query":"get x"}`, `git_hub["get-x"] [direct: gh__get-x]` + "\n" + `git_hub["get_x"] [direct: gh__get_x]`, ""},
		{`{"query":"import"}`, `git_hub["import"] [direct: gh__import]`, ""},
		{`{"query":"zebra"}`, `No tool matches "zebra". Servers: git_hub (6 tools), files (2 tools), away (0 tools), tools (1 tool).`,
			`{"tools":[],"total":0,"servers":[{"server":"git_hub","tools":6},{"server":"files","tools":2},{"server":"away","tools":0},{"server":"tools","tools":1}]}`},
		{`{"limit":1}`, `tools["issue-report"] - Report on issues [direct: issue-report]` + "\nAnd 8 more: search with words, or a higher limit.\nServers: git_hub (6 tools)", ""},
		{`{"server":"files"}`, "files.read_file - Read a file [scripts only]\nfiles.search_issues", ""},
	} {
		text, structured, failed := ask(t, h, "search_tools", tt.arguments)
		if failed || !strings.HasPrefix(text, tt.text) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.arguments, text, tt.text)
		}
		if tt.structured != "" && string(structured) != tt.structured {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.arguments, structured, tt.structured)
		}
	}
	for _, query := range []string{"delete repository", "delete_repository", "save tool", "describe tool"} {
		if text, _, _ := ask(t, h, "search_tools", fmt.Sprintf(`{"query":%q}`, query)); strings.Contains(text, "delete_repository") || strings.Contains(text, "save_tool") {
			t.Errorf("%s: found %s", query, text)
		}
	}
	if text, e, failed := ask(t, h, "search_tools", `{"query":"x","server":"git"}`); !failed ||
		!strings.Contains(text, `there is no server "git" (did you mean git_hub?)`) || field(string(e), "error", "details", "nearest") != `["git_hub"]` {
		t.Errorf("unknown server: %s, %s", text, e)
	}
	if text, _, failed := ask(t, h, "search_tools", `{"query":"x","limit":101}`); !failed {
		t.Errorf("limit of 101: %s", text)
	}
}

func TestDescribeTool(t *testing.T) {
	h := newSearchFixture(t, true)
	for _, tt := range []struct{ names, text string }{
		{"gh__search_issues, git_hub.search_issues, git-hub.search_issues, git_hub.search_issues.raw, git_hub.search_issues(query=1), git_hub[\"search_issues\"]",
			"git_hub.search_issues(query: str, limit: int = 10) -> {\"total\": int}\n\nSearch issues. Of all repositories.\n\nExample:\n" +
				"git_hub.search_issues(query=\"is:open\")\n\nAgents can call it directly, as gh__search_issues. It says that it only reads."},
		{"files__read_file, files.read_file, read_file",
			"files.read_file(path: str)\n\nRead a file\n\nArguments:\n- path (matches ^/)\n\nExample (its values are placeholders):\nfiles.read_file(path=\"path/to/it\")\n\n" +
				"Only scripts can call it (eval_starlark, save_tool). What it returns is not declared."},
		{"git_hub.create_issue, create-issue", "git_hub.create_issue(z: float = ..., a: float = ...)"},
		{"issue-report, tools.issue-report, tools['issue-report']", "tools[\"issue-report\"](days: int = ...) -> list[str]\n"},
		{"git_hub.import, import", "git_hub[\"import\"]()\n"},
		{"git_hub[\"fork.it\"], git_hub.fork_it, fork.it", "git_hub.fork_it()\n"},
		{"git_hub[\"get-x\"], gh__get-x, get-x", "git_hub[\"get-x\"]()\n"},
		{"describe_tool", "describe_tool(name: str)\n"},
	} {
		for name := range strings.SplitSeq(tt.names, ", ") {
			text, _, failed := ask(t, h, "describe_tool", fmt.Sprintf(`{"name":%q}`, name))
			if failed || !strings.HasPrefix(text, tt.text) {
				t.Errorf("%s: got\n%s\nwant\n%s", name, text, tt.text)
			}
		}
	}
	text, structured, _ := ask(t, h, "describe_tool", `{"name":"gh__create-issue"}`)
	if got, want := field(string(structured), "inputSchema"), `{"type":"object","properties":{"z":{"maximum":9007199254740993},"a":{"multipleOf":0.10}}}`; got != want {
		t.Errorf("inputSchema = %s, want %s", got, want)
	}
	if field(string(structured), "name") != `"gh__create-issue"` || field(string(structured), "script") != `"git_hub.create_issue"` || !strings.HasSuffix(text, "may destroy.") {
		t.Errorf("%s\n%s", structured, text)
	}
	if text, _, _ := ask(t, h, "describe_tool", `{"name":"save_tool"}`); !strings.Contains(text, "save_tool(\n    name: str") || !strings.Contains(text, "Only agents can call it, as save_tool.") {
		t.Errorf("save_tool: %s", text)
	}
}

func TestDescribeUnknown(t *testing.T) {
	h := newSearchFixture(t, true)
	for name, want := range map[string]string{
		"search_issues":            "2 servers have a tool \"search_issues\" (choose one of: git_hub.search_issues, files.search_issues)",
		"git_hub.get_x":            "validation error: tools of server \"git-hub\" share the script name", // the exact name finds it, see below
		"git_hub.serch_issues":     "there is no tool \"git_hub.serch_issues\" (did you mean git_hub.search_issues",
		"gh__serch_issues":         "(did you mean gh__search_issues",
		"githib.search_issues":     "(did you mean git_hub.search_issues",
		"git_hub.delete_repo":      "there is no tool \"git_hub.delete_repo\"",
		"delete_repository":        "there is no tool \"delete_repository\"",
		"gh__delete_repository":    "there is no tool \"gh__delete_repository\"",
		"away.anything":            "server \"away\" has none now (it is starting, or down)",
		"report about issues":      "(did you mean tools[\"issue-report\"]",
		"zebra":                    "there is no tool \"zebra\" (search_tools finds tools by words)",
		"tools.none_such":          "there is no tool \"tools.none_such\"",
		"[":                        "there is no tool",
		".":                        "there is no tool",
		strings.Repeat("x.y[", 99): "there is no tool",
	} {
		text, _, failed := ask(t, h, "describe_tool", fmt.Sprintf(`{"name":%q}`, name))
		if name == "git_hub.get_x" {
			if failed || !strings.HasPrefix(text, `git_hub["get_x"]()`) {
				t.Errorf("%s: %s", name, text)
			}
			continue
		}
		if !failed || !strings.Contains(text, want) {
			t.Errorf("%s: got %s, want %s", name, text, want)
		}
		if strings.Contains(name, "delete") && strings.Contains(text, "mean") && strings.Contains(text[strings.Index(text, "mean"):], "delete") {
			t.Errorf("%s: a hidden tool is named: %s", name, text)
		}
	}
	text, e, failed := ask(t, h, "describe_tool", `{"name":"git_hub.delete_repository"}`)
	if !failed || field(string(e), "error", "type") != `"permission"` || !strings.Contains(text, "may not be called") {
		t.Errorf("a hidden tool: %s", text)
	}
}

// TestSavedToolsOutsideScripts checks that a saved tool has no name in scripts if
// scripts cannot call it.
func TestSavedToolsOutsideScripts(t *testing.T) {
	h := newSearchFixture(t, false)
	if text, _, _ := ask(t, h, "search_tools", `{"query":"report"}`); text != "issue-report - Report on issues [direct only]" {
		t.Errorf("found %s", text)
	}
	if text, _, _ := ask(t, h, "describe_tool", `{"name":"issue-report"}`); !strings.HasPrefix(text, "issue-report(days: int = ...) -> {") || !strings.Contains(text, "Only agents can call it") {
		t.Errorf("described as %s", text)
	}
}

// TestSnapshotIsKept checks that tools are read again only if they have changed, and
// after waiting for servers.
func TestSnapshotIsKept(t *testing.T) {
	h := newSearchFixture(t, true)
	settled := 0
	h.cfg.Settled = func(context.Context) { settled++ }
	first := h.directory.snapshot()
	ask(t, h, "search_tools", `{"query":"x"}`)
	ask(t, h, "describe_tool", `{"name":"read_file"}`)
	if h.directory.snapshot() != first || settled != 2 {
		t.Errorf("read again, or settled %d times", settled)
	}
	s := h.cfg.Directory.(*searchFixture)
	s.listed["away"] = []string{`{"name":"zebra","description":"Strips","inputSchema":{"type":"object"}}`}
	s.SetUpstream("away", wire.Tools, [][]byte{[]byte(s.listed["away"][0])}, nil)
	if text, _, _ := ask(t, h, "search_tools", `{"query":"zebra"}`); !strings.HasPrefix(text, "away.zebra - Strips [direct: away__zebra]") {
		t.Errorf("found %s", text)
	}
	if h.directory.snapshot() == first {
		t.Error("not read again")
	}
}

// TestExamplesAreScripts checks the examples of all kinds of schemas in the
// guest.
func TestExamplesAreScripts(t *testing.T) {
	h := newFixture(t)
	files, err := filepath.Glob("discover/testdata/signatures/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d archives, %v", len(files), err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := discover.Describe(discover.Function{Call: `git_hub["x"]`, Input: archive.Files[1].Data})
		if err := h.handler.cfg.Composer.Check(t.Context(), "example", "return "+d.Example); err != nil {
			t.Errorf("%s: %s: %v", file, d.Example, err)
		}
	}
}

// TestManyTools checks a catalog with more tools than can be searched.
func TestManyTools(t *testing.T) {
	entries := make([]catalog.Entry, maxIndexed+5)
	for i := range entries {
		name := fmt.Sprintf("tool%d", i)
		entries[i] = catalog.Entry{Name: name, Kind: catalog.Proxied, Server: "s", Tool: name, Definition: []byte(`{"name":"` + name + `","inputSchema":{}}`)}
	}
	s := newSnapshot(entries)
	if hits := s.search(fmt.Sprintf("tool%d", maxIndexed-1), ""); len(hits) == 0 || hits[0] != maxIndexed-1 {
		t.Errorf("the last one that is read is not found")
	}
	if hits := s.search(fmt.Sprintf("tool%d", maxIndexed+1), ""); slices.Contains(hits, maxIndexed+1) {
		t.Error("one too many is found")
	}
	if s.own[ownName{"s", fmt.Sprintf("tool%d", maxIndexed+1)}] == nil {
		t.Error("what is not searched cannot be described")
	}
}

// TestWithoutDirectory checks that there are no such tools without a Directory.
func TestWithoutDirectory(t *testing.T) {
	h := newFixture(t)
	for _, e := range h.handler.Entries() {
		if e.Name == "search_tools" || e.Name == "describe_tool" {
			t.Errorf("there is %s", e.Name)
		}
	}
}

// TestDirectoryDefinitions checks that the definitions are short, because they are in
// every list of tools.
func TestDirectoryDefinitions(t *testing.T) {
	for _, e := range newSearchFixture(t, true).Entries()[5:] {
		input, _ := wire.Get(e.Definition, "inputSchema")
		description, _ := wire.GetString(e.Definition, "description")
		if len(description) > 200 || len(input) > 600 || len(e.Definition) > 1900 {
			t.Errorf("%s has %d bytes, %d of them description, %d inputSchema", e.Name, len(e.Definition), len(description), len(input))
		}
	}
}

// BenchmarkSearchTools measures a whole call with 2,000 tools, most of them exposed.
func BenchmarkSearchTools(b *testing.B) {
	yes, no := func(string) bool { return true }, func(string) bool { return false }
	s := &searchFixture{sources: []catalog.Source{{Server: "s", Prefix: "s__", Exposes: yes, Hides: no}}, listed: map[string][]string{}}
	s.Catalog = catalog.New(s.sources, quiet(), func(*catalog.Scope, wire.Surface, []byte) {})
	objects := strings.Fields("issue order customer shipment product invoice contract employee asset ticket")
	verbs := strings.Fields("create delete search list get update send merge close open")
	var items [][]byte
	for i := range 2000 {
		verb, object := verbs[i%10], objects[i/10%10]
		items = append(items, fmt.Appendf(nil, `{"name":"%s_%s_%d","description":"%s one %s of department %d","inputSchema":{"type":"object","properties":{"%s_id":{"type":"string"}}}}`,
			verb, object, i/100, verb, object, i/100, object))
		s.listed["s"] = append(s.listed["s"], string(items[i]))
	}
	s.SetUpstream("s", wire.Tools, items, nil)
	h := New(Options{Composer: idle(), Catalog: s, Directory: s, Log: quiet()})
	s.own = s.All()
	s.sources = nil // All returns a slice that exists, like a catalog's
	call := route.Call{Params: []byte(`{"arguments":{"query":"close customer 7"}}`)}
	for b.Loop() {
		h.CallTool(b.Context(), "search_tools", call)
	}
}
