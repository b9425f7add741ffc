package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/permissions"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// echo is the upstream: each call answers with its params object.
type echo struct{}

func (echo) Ready(context.Context, route.Origin, string) error { return nil }

func (echo) CallUpstream(_ context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	params, progress := call.Params, call.Progress
	if progress != nil {
		progress([]byte(`{"progress":1}`))
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"structuredContent":%s}`, params)}
}

// fixture is a Handler with a real store, catalog and sandbox, and a fake upstream.
type fixture struct {
	t       *testing.T
	dir     string
	store   *tools.Store
	catalog *catalog.Catalog
	handler *Handler
	changes int
}

func newFixture(t *testing.T) *fixture {
	h := &fixture{t: t, dir: t.TempDir()}
	store, err := tools.OpenStore(h.dir, tools.StoreOptions{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	h.store = store
	h.catalog = catalog.New([]catalog.Source{{
		Server: "git-hub", Prefix: "gh_",
		Exposes: func(tool string) bool { return tool != "unseen" }, Hides: func(string) bool { return false },
	}}, quiet(), func(*catalog.Scope, wire.Surface, []byte) {})
	h.catalog.SetUpstream("git-hub", wire.Tools, [][]byte{[]byte(`{"name":"search"}`), []byte(`{"name":"unseen"}`)}, nil)
	composer := compose.New(compose.Options{Sandbox: sandboxtest.Guest(t), Catalog: h.catalog, Upstreams: echo{}, Log: quiet(), AgentTools: Mentioned})
	h.handler = New(Options{Store: store, Composer: composer, Catalog: h.catalog, OnChange: h.refresh, Log: quiet()})
	h.catalog.SetBuiltins(h.handler.Entries())
	return h
}

func (h *fixture) refresh() {
	h.changes++
	var entries []catalog.Entry
	for _, d := range h.store.List() {
		entries = append(entries, catalog.Entry{Name: d.Name, Definition: compose.ToolDefinition(d, permissions.Worst)})
	}
	h.catalog.SetComposites(entries)
}

// call calls a built-in tool and checks the answer against its outputSchema.
func (h *fixture) call(tool, arguments string) wire.Reply {
	h.t.Helper()
	params := fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments)
	reply := h.handler.CallTool(h.t.Context(), tool, route.Call{Params: params})
	if reply.Error != nil || !json.Valid(reply.Result) {
		h.t.Fatalf("%s %s: %s%s", tool, arguments, reply.Result, reply.Error)
	}
	entry, _ := h.catalog.Tool(tool)
	matches(h.t, entry.Definition, reply)
	return reply
}

// matches checks the answer of a built-in tool, including errors, against its
// outputSchema, which agents do not see. Results of scripts have none.
func matches(t *testing.T, definition []byte, reply wire.Reply) {
	t.Helper()
	name, _ := wire.GetString(definition, "name")
	var output []byte
	for _, row := range table() {
		if row.name == name {
			output = row.define(name, []byte(`""`)).RawOutputSchema
		}
	}
	if output == nil && name == "eval_starlark" {
		return
	}
	schema, err := tools.CompileSchema(output, "outputSchema of "+name)
	if err != nil {
		t.Fatal(err)
	}
	structured, _ := wire.Get(reply.Result, "structuredContent")
	if err := schema.Validate(structured, nil); err != nil {
		t.Errorf("%s: %s does not match its outputSchema: %v", name, structured, err)
	}
}

// ok returns the structuredContent of a call that must succeed.
func (h *fixture) ok(tool, arguments string) string {
	h.t.Helper()
	reply := h.call(tool, arguments)
	if raw, _ := wire.Get(reply.Result, "isError"); string(raw) != "false" {
		h.t.Fatalf("%s %s: %s", tool, arguments, reply.Result)
	}
	structured, _ := wire.Get(reply.Result, "structuredContent")
	return string(structured)
}

// fails returns the text and the structured error of a call that must fail.
func (h *fixture) fails(tool, arguments string) (text string, e []byte) {
	h.t.Helper()
	reply := h.call(tool, arguments)
	if raw, _ := wire.Get(reply.Result, "isError"); string(raw) != "true" {
		h.t.Fatalf("%s %s: %s", tool, arguments, reply.Result)
	}
	e, _ = wire.Get(reply.Result, "structuredContent", "error")
	return textOf(h.t, reply), e
}

func textOf(t *testing.T, reply wire.Reply) string {
	t.Helper()
	content, _ := wire.Get(reply.Result, "content")
	blocks, err := wire.Elements(content)
	if err != nil || len(blocks) != 1 {
		t.Fatalf("content of %s", reply.Result)
	}
	text, _ := wire.GetString(blocks[0], "text")
	return text
}

func field(raw string, path ...string) string {
	v, _ := wire.Get([]byte(raw), path...)
	return string(v)
}

const sum = `{
	"name": "sum",
	"description": "Adds.",
	"inputSchema": {"type": "object", "z": 1, "properties": {"b": {"maximum": 9007199254740993}, "a": {"multipleOf": 0.10}}},
	"outputSchema": {"type": "number"},
	"code": "return params.a + params.b"
}`

func TestSaveShowDelete(t *testing.T) {
	h := newFixture(t)
	made := h.ok("save_tool", sum)
	if field(made, "status") != `"created"` || field(made, "name") != `"sum"` || field(made, "created") != field(made, "modified") {
		t.Errorf("created: %s", made)
	}
	entry, listed := h.catalog.Tool("sum")
	if h.changes != 1 || !listed || entry.Kind != catalog.Composite {
		t.Errorf("the catalog does not show it (%d changes)", h.changes)
	}

	const schema = `{"type":"object","z":1,"properties":{"b":{"maximum":9007199254740993},"a":{"multipleOf":0.10}}}`
	shown := h.ok("show_saved_tool", `{"name":"sum"}`)
	for _, tt := range []struct{ path, want string }{
		{"version", `"1.0"`}, {"name", `"sum"`}, {"description", `"Adds."`}, {"inputSchema", schema},
		{"outputSchema", `{"type":"number"}`}, {"code", `"return params.a + params.b"`},
		{"metadata", `{"created":` + field(made, "created") + `,"modified":` + field(made, "created") + `,"executionCount":0}`},
	} {
		if got := field(shown, tt.path); got != tt.want {
			t.Errorf("shown %s = %s, want %s", tt.path, got, tt.want)
		}
	}

	listedTools := h.ok("list_saved_tools", `{}`)
	want := `{"tools":[{"name":"sum","description":"Adds.","created":` + field(made, "created") + `,"modified":` + field(made, "created") + `,"inputSchema":` + schema + `}]}`
	if listedTools != want {
		t.Errorf("list:\ngot  %s\nwant %s", listedTools, want)
	}

	changed := h.ok("save_tool", strings.Replace(sum, "Adds.", "Adds two.", 1))
	if field(changed, "status") != `"updated"` || field(changed, "created") != field(made, "created") || h.changes != 2 {
		t.Errorf("updated: %s", changed)
	}
	if got := h.ok("delete_saved_tool", `{"name":"sum"}`); got != `{"status":"deleted","name":"sum"}` || h.changes != 3 {
		t.Errorf("deleted: %s", got)
	}
	if _, listed := h.catalog.Tool("sum"); listed {
		t.Error("the catalog still shows it")
	}
	if got := h.ok("list_saved_tools", `{}`); got != `{"tools":[]}` {
		t.Errorf("list: %s", got)
	}
}

// TestShowIsTheFile checks that show_saved_tool returns what is on disk, including
// members of a later version.
func TestShowIsTheFile(t *testing.T) {
	h := newFixture(t)
	path := filepath.Join(h.store.Dir(), "later.json")
	file := `{"version":"1.0","name":"later","description":"d","inputSchema":{"type":"object"},"limits":{"calls":5,"later":1.0},"code":"return 1",` +
		`"metadata":{"created":"2026-01-02T03:04:05Z","modified":"2026-01-03T03:04:05.5Z","executionCount":7,"lastExecuted":"2026-01-04T00:00:00Z","owner":"me"},"tags":[1.50]}`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.ok("show_saved_tool", `{"name":"later"}`); got != file {
		t.Errorf("got  %s\nwant %s", got, file)
	}
	reply := h.call("show_saved_tool", `{"name":"later"}`)
	var text, structured any
	if err := errors.Join(json.Unmarshal([]byte(textOf(t, reply)), &text), json.Unmarshal([]byte(file), &structured)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(text) != fmt.Sprint(structured) || !strings.Contains(textOf(t, reply), "\n  \"name\"") {
		t.Errorf("text = %s", textOf(t, reply))
	}
}

func TestSaveRefuses(t *testing.T) {
	h := newFixture(t)
	h.ok("save_tool", sum)
	arguments := func(change map[string]string) string {
		m := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(sum), &m); err != nil {
			t.Fatal(err)
		}
		for k, v := range change {
			m[k] = json.RawMessage(v)
		}
		return string(wire.Marshal(m))
	}
	for _, tt := range []struct {
		name   string
		change map[string]string
		text   string
	}{
		{"built-in name", map[string]string{"name": `"save_tool"`}, "/name: \"save_tool\" is the name of the built-in tool (choose another)"},
		{"built-in name in another case", map[string]string{"name": `"Save_Tool"`}, "/name: \"Save_Tool\" could be mistaken for the built-in tool save_tool (choose another)"},
		{"upstream's name", map[string]string{"name": `"gh_search"`}, "/name: \"gh_search\" is the name of tool \"search\" of upstream \"git-hub\" (choose another)"},
		{"name of a tool not shown", map[string]string{"name": `"gh_unseen"`}, "tool \"unseen\" of upstream \"git-hub\""},
		{"odd name", map[string]string{"name": `"a b"`}, "/name: "},
		{"device name", map[string]string{"name": `"con"`}, "/name: is a device name"},
		{"case clash", map[string]string{"name": `"SUM"`}, "differs from the saved tool \"sum\""},
		{"blank description", map[string]string{"description": `" "`}, "/description: is empty"},
		{"no description", map[string]string{"description": `""`}, "/description: "},
		{"schema of no object", map[string]string{"inputSchema": `{"type":"string"}`}, "/inputSchema: "},
		{"broken schema", map[string]string{"inputSchema": `{"type":"object","required":5}`}, "/inputSchema: "},
		{"network reference", map[string]string{"inputSchema": `{"type":"object","$ref":"https://example.com/x"}`}, "/inputSchema: "},
		{"broken outputSchema", map[string]string{"outputSchema": `{"type":"no"}`}, "/outputSchema: "},
		{"syntax", map[string]string{"code": `"x = 1\nif x\n  y"`}, "/code: sum:2:5: syntax error: got newline, want ':'"},
		{"source line", map[string]string{"code": `"x = 1\nif x\n  y"`}, "\n  at sum:2:5\n    if x\n        ^"},
		{"unknown server", map[string]string{"code": `"return githib.x()"`}, "/code: sum:1:8: "},
		{"empty code", map[string]string{"code": `""`}, "/code: "},
		{"large code", map[string]string{"code": string(wire.Quote("x = '" + strings.Repeat("x", MaxCode) + "'"))}, "/code: is 262150 bytes long (at most 262144)"},
		{"unknown argument", map[string]string{"extra": `1`}, "unknown property \"extra\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, e := h.fails("save_tool", arguments(tt.change))
			if !strings.Contains(text, tt.text) || field(string(e), "type") != `"validation"` {
				t.Errorf("text = %s\nwant %s\nerror = %s", text, tt.text, e)
			}
		})
	}
	if got := h.store.List(); len(got) != 1 || got[0].Description != "Adds." || h.changes != 1 {
		t.Errorf("the store has %+v after %d changes", got, h.changes)
	}
}

// TestLimitsOfTool checks that limits are saved as written, shown, and never above those
// of the configuration.
func TestLimitsOfTool(t *testing.T) {
	h := newFixture(t)
	withLimits := func(limits string) string { return strings.Replace(sum, "{", `{"limits":`+limits+`,`, 1) }
	const own = `{"timeout":"5s","memory":33554432,"fuel":20000000,"calls":3}`
	h.ok("save_tool", withLimits(own))
	if got := field(h.ok("show_saved_tool", `{"name":"sum"}`), "limits"); got != own {
		t.Errorf("shown limits = %s, want %s", got, own)
	}
	if d, err := h.store.Get("sum"); err != nil || d.Limits.Calls != 3 || d.Limits.Memory != 32<<20 {
		t.Errorf("saved: %+v, %v", d.Limits, err)
	}
	for limits, want := range map[string]string{
		`{"fuel":20000000000}`:            "/limits/fuel: got 20000000000, want at most 10000000000 (execution.max_fuel)",
		`{"memory":"1GB"}`:                "/limits/memory: got 1GiB, want at most 128MiB (execution.max_memory)",
		`{"timeout":"1h"}`:                "/limits/timeout: got 1h, want at most 30s (execution.timeout)",
		`{"timeout":0.5}`:                 "/limits/timeout: \"0.5\" has no unit",
		`{"calls":1001}`:                  "/limits/calls: got 1001, want at most 1000 (execution.max_calls)",
		`{"calls":0}`:                     "/limits/calls: got 0, want at least 1",
		`{"fuel":1}`:                      "/limits/fuel: got 1, want at least 10000000",
		`{"memory":"lots"}`:               "/limits/memory: \"lots\" is not a size",
		`{"time":"5s"}`:                   "unknown property \"time\"",
		`{"calls":1001,"timeout":"5min"}`: "/limits/timeout: \"5min\" is not a duration",
	} {
		if text, _ := h.fails("save_tool", withLimits(limits)); !strings.Contains(text, want) {
			t.Errorf("%s: %s\nwant %s", limits, text, want)
		}
	}
	text, _ := h.fails("save_tool", strings.Replace(withLimits(`{"calls":5000,"fuel":99999999999}`), "Adds.", " ", 1))
	if !strings.Contains(text, "/description") || !strings.Contains(text, "/limits/calls") || !strings.Contains(text, "/limits/fuel") {
		t.Errorf("not all at once: %s", text)
	}
	h.ok("save_tool", sum)
	if got := h.ok("show_saved_tool", `{"name":"sum"}`); field(got, "limits") != "" {
		t.Errorf("saved without limits: %s", got)
	}
}

func TestSaveListsAllProblemsAtOnce(t *testing.T) {
	h := newFixture(t)
	text, e := h.fails("save_tool", `{"name":"gh_search","description":" ","inputSchema":{"type":"array"},"outputSchema":{"type":"x"},"code":"return ("}`)
	violations, _ := wire.Get(e, "details", "violations")
	items, _ := wire.Elements(violations)
	var pointers []string
	for _, v := range items {
		p, _ := wire.GetString(v, "pointer")
		pointers = append(pointers, p)
	}
	if want := []string{"/name", "/description", "/inputSchema", "/outputSchema", "/code"}; !slices.Equal(pointers, want) {
		t.Errorf("pointers = %q, want %q\n%s", pointers, want, text)
	}
	if field(string(e), "details", "line") != "1" || field(string(e), "details", "source") != `"return ("` {
		t.Errorf("error = %s", e)
	}
	text, _ = h.fails("save_tool", `{"name":5,"code":[]}`)
	for _, want := range []string{"/code: ", "\"description\"", "\"inputSchema\""} {
		if !strings.Contains(text, want) {
			t.Errorf("text = %s, want %s", text, want)
		}
	}
}

// TestWhatModelsGetWrong checks a schema that is passed as text.
func TestWhatModelsGetWrong(t *testing.T) {
	h := newFixture(t)
	h.ok("save_tool", `{"name":"t","description":"d","inputSchema":"{\"type\":\"object\",\"z\":12345678901234567890}","code":"return 1"}`)
	if got := field(h.ok("show_saved_tool", `{"name":"t"}`), "inputSchema"); got != `{"type":"object","z":12345678901234567890}` {
		t.Errorf("inputSchema = %s", got)
	}
}

func TestNotFound(t *testing.T) {
	h := newFixture(t)
	h.ok("save_tool", sum)
	for _, tool := range []string{"show_saved_tool", "delete_saved_tool"} {
		for name, want := range map[string]string{
			"sun":       `no saved tool is called "sun" (did you mean sum?)`,
			"unrelated": `no saved tool is called "unrelated" (list_saved_tools lists them)`,
			"gh_search": `"gh_search" is tool "search" of upstream "git-hub", not a saved tool`,
			"../sum":    `no saved tool is called "../sum"`,
		} {
			text, e := h.fails(tool, fmt.Sprintf(`{"name":%q}`, name))
			if !strings.Contains(text, want) || field(string(e), "type") != `"validation"` {
				t.Errorf("%s %s: %s, want %s", tool, name, text, want)
			}
		}
	}
	if h.changes != 1 || len(h.store.List()) != 1 {
		t.Error("something was changed")
	}
}

func TestCorruptFileIsReported(t *testing.T) {
	h := newFixture(t)
	path := filepath.Join(h.store.Dir(), "broken.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := h.ok("list_saved_tools", `{}`)
	if !strings.Contains(field(list, "problems"), `"name":"broken","path":`+string(wire.Quote(path))) {
		t.Errorf("list = %s", list)
	}
	for tool, arguments := range map[string]string{
		"save_tool":         strings.Replace(sum, `"sum"`, `"broken"`, 1),
		"show_saved_tool":   `{"name":"broken"}`,
		"delete_saved_tool": `{"name":"broken"}`,
	} {
		if text, _ := h.fails(tool, arguments); !strings.Contains(text, "repair or remove the file") {
			t.Errorf("%s: %s", tool, text)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "{" {
		t.Errorf("the file is now %q, %v", data, err)
	}
}

func TestEval(t *testing.T) {
	h := newFixture(t)
	var progress []string
	reply := h.handler.CallTool(t.Context(), "eval_starlark", route.Call{
		Params:   []byte(`{"name":"eval_starlark","arguments":{"code":"print(1)\nreturn git_hub.search(n=params.n).arguments.n","params":{"n":9007199254740993}},"_meta":{"progressToken":1}}`),
		Progress: func(p []byte) { progress = append(progress, string(p)) },
	})
	if got := field(string(reply.Result), "structuredContent", "result"); got != "9007199254740993" || len(progress) != 2 {
		t.Errorf("result %s, progress %q: %s", got, progress, reply.Result)
	}
	if got := field(h.ok("eval_starlark", `{"code":"return params"}`), "result"); got != `{}` {
		t.Errorf("absent params are %s", got)
	}
	if text, _ := h.fails("eval_starlark", `{"code":"return 1 // 0"}`); !strings.Contains(text, "eval_starlark:1:10") {
		t.Errorf("text = %s", text)
	}
	if text, _ := h.fails("eval_starlark", `{"code":`+string(wire.Quote(strings.Repeat("#", MaxCode+1)))+`}`); !strings.Contains(text, "at most 262144") {
		t.Errorf("text = %s", text)
	}
}

// TestLargeParams checks that arguments with too many values are refused, and that those with many
// are not.
func TestLargeParams(t *testing.T) {
	h := newFixture(t)
	params := func(objects int) string {
		return `{"code":"return len(params.a)","params":{"a":[` + strings.Repeat(`{"":1},`, objects-1) + `{"":1}]}}`
	}
	if got := h.ok("eval_starlark", params(60_000)); !strings.Contains(got, `"result":60000`) {
		t.Errorf("60000 objects: %.300s", got)
	}
	text, e := h.fails("eval_starlark", params(500_000))
	if class, _ := wire.GetString(e, "type"); class != "validation" || !strings.Contains(text, "has 1000004 JSON values, more than the limit of 1000000") {
		t.Errorf("500000 objects: %.300s", text)
	}
}

// TestDefinitions checks what agents see of the built-in tools.
func TestDefinitions(t *testing.T) {
	h := newFixture(t)
	var names []string
	for _, e := range h.handler.Entries() {
		names = append(names, e.Name)
		folded := strings.NewReplacer("s", "\u017f", "k", "\u212a").Replace(e.Name) // Unicode case folding
		for _, name := range []string{e.Name, strings.ToUpper(e.Name), folded} {
			if Reserved(name) != e.Name {
				t.Errorf("%s is free to be taken", name)
			}
		}
		if taken := Reserved(e.Name + "_"); taken != "" {
			t.Errorf("%s_ is not free: %s", e.Name, taken)
		}
		for _, path := range [][]string{{"title"}, {"description"}, {"annotations", "readOnlyHint"}, {"annotations", "destructiveHint"},
			{"annotations", "idempotentHint"}, {"annotations", "openWorldHint"}, {"inputSchema", "properties"}} {
			if v, ok := wire.Get(e.Definition, path...); !ok || string(v) == `""` {
				t.Errorf("%s has no %s", e.Name, path)
			}
		}
		if got, _ := wire.GetString(e.Definition, "name"); got != e.Name || e.Kind != catalog.Builtin {
			t.Errorf("entry %s defines %s", e.Name, got)
		}
	}
	var want []string
	for _, row := range table() {
		if row.works == nil { // the others need options that this handler does not have
			want = append(want, row.name)
		}
	}
	if !slices.Equal(names, want) || len(names) < 5 {
		t.Errorf("tools = %q, want %q", names, want)
	}
	told := 0
	for _, e := range h.handler.Entries() {
		code, ok := wire.GetString(e.Definition, "inputSchema", "properties", "code", "description")
		switch {
		case !ok:
		case strings.HasPrefix(code, dialect):
			told++
			if !strings.HasSuffix(code, "Servers here: git_hub.") || len(code) > 2500 {
				t.Errorf("the code parameter is described by %d bytes: %s", len(code), code)
			}
		case len(code) > 100:
			t.Errorf("%s describes its code again: %s", e.Name, code)
		}
	}
	if told != 1 {
		t.Errorf("the language is described %d times", told)
	}
	if words := len(strings.Fields(Instructions(true))); words > 350 {
		t.Errorf("the instructions have %d words", words)
	}
	if reply := h.handler.CallTool(t.Context(), "none", route.Call{}); reply.Error == nil {
		t.Errorf("an unknown tool answered %s", reply.Result)
	}
}
