package cassette

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// run runs a script and returns its structured result.
func run(t *testing.T, cat compose.Catalog, up compose.Upstreams, code string) []byte {
	t.Helper()
	c := compose.New(compose.Options{Sandbox: sandboxtest.Guest(t), Catalog: cat, Upstreams: up, Log: quiet()})
	reply := c.Eval(t.Context(), code, nil, route.Call{})
	structured, ok := wire.Get(reply.Result, "structuredContent")
	if !ok {
		t.Fatalf("reply = %s", reply.Result)
	}
	return structured
}

func made(t *testing.T, interactions ...Interaction) *Cassette {
	t.Helper()
	c, err := New(interactions...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// call calls a tool with arguments.
func call(ctx context.Context, up compose.Upstreams, server, tool, arguments string) string {
	reply := up.CallUpstream(ctx, nil, route.ScriptCall{Server: server, Tool: tool, Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments)})
	if reply.Error != nil {
		return "error: " + wire.ParseError(reply.Error).Message
	}
	return string(reply.Result)
}

// TestScriptSeesValue checks that a script receives exactly what a mock returns, to the
// last digit.
func TestScriptSeesValue(t *testing.T) {
	for _, value := range []string{
		`{"a":{"b":[1,null,2.50]}}`, `[]`, `[1,"x"]`, `"text"`, `""`, `"5"`, `" 5"`, `"null"`, `"[1]"`, `"{\"a\":1}"`, `"\"x\""`,
		`5`, `1.10`, `-0.0`, `1e400`, `123456789012345678901234567890`, `true`, `false`, `null`, `"é\u0000<"`, `{"isError":true}`,
	} {
		c := made(t, Interaction{Server: "s", Tool: "t", Returns: []byte(value)})
		if value == `1e400` { // no script can hold it
			continue
		}
		got := run(t, c, c, "x = s.t()\nreturn [x, type(x)]")
		want := run(t, c, c, fmt.Sprintf("x = json.decode(%s)\nreturn [x, type(x)]", wire.Quote(value)))
		g, _ := wire.Get(got, "result")
		w, _ := wire.Get(want, "result")
		if string(g) != string(w) || g == nil {
			t.Errorf("%s: script got %s, want %s", value, got, w)
		}
	}
}

func TestScriptSeesErrors(t *testing.T) {
	c := made(t,
		Interaction{Server: "s", Tool: "no", Raises: &Raise{Message: "out of order", Details: []byte(`{"code":7}`)}},
		Interaction{Server: "s", Tool: "plain", Raises: &Raise{Message: "no"}},
		Interaction{Server: "s", Tool: "rpc", RPCError: []byte(`{"code":-32602,"message":"bad","data":[1]}`)},
		Interaction{Server: "s", Tool: "raw", Result: []byte(`{"content":[],"_meta":{"x":1},"isError":true}`)},
		Interaction{Server: "s", Tool: "picky", Params: []byte(`{"a":1}`), Returns: []byte(`1`)},
	)
	const code = `
def caught(f):
    try:
        return f()
    except ToolError as e:
        return [e.type, e.server, e.tool, e.message, e.details]
return [caught(f) for f in [lambda: s.no(), lambda: s.plain(), lambda: s.rpc(), lambda: s.raw.raw({}), lambda: s.picky.raw({"a": 2})]]`
	got, _ := wire.Get(run(t, c, c, code), "result")
	want := `[["tool","s","no","out of order",{"code":7}],["tool","s","plain","no",[{"type":"text","text":"no"}]],` +
		`["tool","s","rpc","bad",{"code":-32602,"data":[1]}],{"content":[],"_meta":{"x":1},"isError":true},` +
		`["tool","s","picky","no mock answers this call of s.picky; the nearest is mock 5 (s.picky): params.a: want 1, got 2",{"code":-32602}]]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if missed := c.Unmatched(); len(missed) != 1 || string(missed[0].Params) != `{"a":2}` {
		t.Errorf("unmatched = %+v", missed)
	}
	failed := string(run(t, c, c, "s.nothing()"))
	if want := `there is no mock for s.nothing (did you mean s.no?); there are mocks of s.no, s.plain, s.rpc, s.raw, s.picky`; !strings.Contains(failed, want) {
		t.Errorf("got %s, want %s", failed, want)
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		match       Match
		params      string
		args        string
		differences string // joined by "; "
	}{
		{"", ``, `{"a":1}`, ``},
		{"", `{}`, `{}`, ``},
		{"", `{}`, `{"a":1}`, `params.a is not expected (got 1)`},
		{Exact, `{"a":1,"b":{"c":[1,2.0]}}`, `{"b":{"c":[1.0,2]},"a":1}`, ``},
		{Exact, `{"a":1,"b":{"c":[1]}}`, `{"a":1,"b":{"c":[1],"d":0}}`, `params.b`},
		{Subset, `{"a":1,"b":{"c":[1]}}`, `{"a":1,"b":{"c":[1],"d":0},"e":1}`, ``},
		{Subset, `{"a":1}`, `{"b":1}`, `params.a is missing (want 1)`},
		{Subset, `{"a":[1]}`, `{"a":[1,2]}`, `params.a`},
		{Exact, `{"n":9007199254740993}`, `{"n":9007199254740992}`, `params.n: want 9007199254740993, got 9007199254740992`},
		{Exact, `{"s":"1","t":null}`, `{"s":1,"t":false}`, `params.s: want "1", got 1; params.t: want null, got false`},
		{Exact, `{"o":{"p":{"q":"x"}}}`, `{"o":{"p":{"q":"y"}}}`, `params.o.p.q: want "x", got "y"`},
	} {
		i := Interaction{Server: "s", Tool: "t", Match: tt.match, Returns: []byte(`1`)}
		if tt.params != "" {
			i.Params = []byte(tt.params)
		}
		w := comparing{ctx: t.Context()}
		var err error
		if w.args, err = w.decode([]byte(tt.args)); err != nil {
			t.Fatal(err)
		}
		var differ []string
		if n, err := w.differing(&i); err != nil {
			t.Fatal(err)
		} else if n > 0 {
			differ, _ = w.describe(&i)
		}
		if got := strings.Join(differ, "; "); !strings.HasPrefix(got, tt.differences) || (got == "") != (tt.differences == "") {
			t.Errorf("%s %s %s: %q, want %q", tt.params, tt.match, tt.args, got, tt.differences)
		}
	}
}

// TestOrder checks that the first interaction that matches and is not used up answers,
// and that identical calls of a recording get their answers in order, and then none.
func TestOrder(t *testing.T) {
	text := func(s string) []byte { return wire.Marshal(callResult{Content: textBlocks(s)}) }
	c := made(t,
		Interaction{Server: "s", Tool: "t", Params: []byte(`{"n":1}`), Result: text("one"), Times: 1},
		Interaction{Server: "s", Tool: "t", Params: []byte(`{"n":2}`), Result: text("two"), Times: 2},
		Interaction{Server: "s", Tool: "t", Params: []byte(`{"n":1}`), Result: text("three"), Times: 1},
		Interaction{Server: "s", Tool: "other", Result: text("any")},
		Interaction{Server: "s", Tool: "never", Result: text("never"), From: "x.toml:9"},
	)
	var got []string
	for _, args := range []string{`{"n":2}`, `{"n":1}`, `{"n":1}`, `{"n":1}`, `{"n":2}`, `{"n":2}`, `{"n":3}`} {
		got = append(got, strings.TrimSuffix(strings.TrimPrefix(call(t.Context(), c, "s", "t", args), `{"content":[{"type":"text","text":"`), `"}]}`))
	}
	got = append(got, call(t.Context(), c, "s", "other", `{}`), call(t.Context(), c, "s", "gone", `null`), call(t.Context(), c, "q", "gone", `{}`))
	want := []string{
		"two", "one", "three",
		"error: no mock answers this call of s.t: mock 1 (s.t) does, but only once, and it was used already",
		"two",
		"error: no mock answers this call of s.t: mock 2 (s.t) does, but only 2 times, and it was used that often already",
		"error: no mock answers this call of s.t; the nearest is mock 1 (s.t): params.n: want 1, got 3",
		`{"content":[{"type":"text","text":"any"}]}`,
		"error: no mock answers s.gone: there are mocks of s.t, s.other, s.never",
		"error: no mock answers q.gone: there are mocks of s.t, s.other, s.never",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if unused := c.Unused(); len(unused) != 1 || unused[0].From != "x.toml:9" {
		t.Errorf("unused = %+v", unused)
	}
	if n := len(c.Unmatched()); n != 5 {
		t.Errorf("%d calls without an answer", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	const n = 64
	var all []Interaction
	for i := range n {
		all = append(all, Interaction{Server: "s", Tool: "t", Returns: fmt.Append(nil, i), Times: 1})
	}
	c := made(t, all...)
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range n + 3 {
		wg.Go(func() {
			got := call(t.Context(), c, "s", "t", `{}`)
			c.Unused()
			mu.Lock()
			defer mu.Unlock()
			seen[got]++
		})
	}
	wg.Wait()
	if len(seen) != n+1 || len(c.Unused()) != 0 || len(c.Unmatched()) != 3 {
		t.Errorf("%d answers, %d unused, %d without", len(seen), len(c.Unused()), len(c.Unmatched()))
	}
}

// TestDelay checks that a script's timeout and a cancellation end a slow mock.
func TestDelay(t *testing.T) {
	c := made(t,
		Interaction{Server: "s", Tool: "slow", Returns: []byte(`1`), Delay: time.Hour},
		Interaction{Server: "s", Tool: "soon", Returns: []byte(`2`), Delay: time.Millisecond},
	)
	got, _ := wire.Get(run(t, c, c, "try:\n    s.slow({}, timeout=0.01)\nexcept ToolError as e:\n    return [e.type, s.soon()]"), "result")
	if string(got) != `["timeout",2]` {
		t.Errorf("got %s", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&wire.CancelledError{})
	if got := call(ctx, c, "s", "slow", `{}`); !strings.Contains(got, "ended before its answer") {
		t.Errorf("cancelled: %s", got)
	}
}

func TestNames(t *testing.T) {
	value := []byte(`1`)
	c := made(t,
		Interaction{Server: "my-files", Tool: "read-file", Returns: value},
		Interaction{Server: "my-files", Tool: "a.b", Returns: value},
		Interaction{Server: "my-files", Tool: "a-b", Returns: value},
		Interaction{Server: "gh", Tool: "search_issues", Returns: value},
	)
	if got := c.Servers(); !slices.Equal(got, []string{"my_files", "gh"}) {
		t.Errorf("servers = %q", got)
	}
	for _, tt := range []struct {
		server, tool string
		exact        bool
		want         string
	}{
		{"my_files", "read_file", false, "my-files read-file"},
		{"my_files", "read-file", true, "my-files read-file"},
		{"my_files", "a-b", true, "my-files a-b"},
		{"my_files", "a_b", false, `tools of server "my-files" share the script name "a_b": write my_files["a.b"] or my_files["a-b"]`},
		{"gh", "search-issues", true, "gh search_issues"},
		{"gh", "search", false, "there is no mock for gh.search (did you mean gh.search_issues?); there are mocks of my-files.read-file, my-files.a.b, my-files.a-b, gh.search_issues"},
		{"no", "x", false, "there is no mock for no.x; there are mocks of my-files.read-file, my-files.a.b, my-files.a-b, gh.search_issues"},
	} {
		server, tool, err := c.Resolve(tt.server, tt.tool, tt.exact)
		got := server + " " + tool
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s.%s: %s\nwant %s", tt.server, tt.tool, got, tt.want)
		}
	}
	// A mock with script names is for the tool with those script names.
	if got := call(t.Context(), c, "gh", "search-issues", `{}`); !strings.Contains(got, `"structuredContent":1`) {
		t.Errorf("got %s", got)
	}
	if c.InputSchema("gh", "search_issues") != nil {
		t.Error("a mock has a schema")
	}
	var unknown *UnknownToolError
	if _, _, err := made(t).Resolve("s", "t", false); !errors.As(err, &unknown) || err.Error() != "there is no mock for s.t: there are no mocks" {
		t.Errorf("error = %v", err)
	}
}

// TestOver checks that the schemas, names and hidden tools of a real catalog apply, and
// that mocks add tools.
func TestOver(t *testing.T) {
	real := catalog.New([]catalog.Source{
		{Server: "git-hub", Exposes: func(string) bool { return true }, Hides: func(tool string) bool { return tool == "drop" }},
		{Server: "away", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }},
	}, quiet(), func(*catalog.Scope, wire.Surface, []byte) {})
	real.SetUpstream("git-hub", wire.Tools, [][]byte{
		[]byte(`{"name":"find-it","inputSchema":{"type":"object","required":["q"]}}`), []byte(`{"name":"drop"}`), []byte(`{"name":"other"}`),
	}, nil)
	c := made(t,
		Interaction{Server: "git_hub", Tool: "find_it", Returns: []byte(`"found"`)},
		Interaction{Server: "git-hub", Tool: "drop", Returns: []byte(`"dropped"`)},
		Interaction{Server: "new", Tool: "x", Returns: []byte(`"new"`)},
		Interaction{Server: "away", Tool: "y", Returns: []byte(`"here"`)},
	)
	cat := c.Over(real)
	for code, want := range map[string]string{
		`return git_hub.find_it(q=1) + new.x() + away.y()`: `{"result":"foundnewhere"`,
		`return git_hub.find_it()`:                         `arguments do not match the tool's inputSchema`,
		`return git_hub.drop()`:                            `may not be called (the configuration hides it)`,
		`return git_hub.other()`:                           `no mock answers git-hub.other: there are mocks of git_hub.find_it, `,
		`return git_hub.none()`:                            `there is no mock for git_hub.none`,
		"if params:\n    away.z()\nreturn 1":               `{"result":1`,
	} {
		if got := string(run(t, cat, c, code)); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", code, got, want)
		}
	}
}

// BenchmarkCall calls a tool in the order of a recording of a thousand calls.
func BenchmarkCall(b *testing.B) {
	const n = 1000
	all := make([]Interaction, n)
	params := make([][]byte, n)
	for i := range all {
		args := fmt.Sprintf(`{"query":"is:open","page":%d}`, i)
		all[i] = Interaction{Server: "s", Tool: "t", Params: []byte(args), Returns: []byte(`{"a":1}`), Times: 1}
		params[i] = []byte(`{"name":"t","arguments":` + args + `}`)
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := New(all...)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range params {
			if reply := c.CallUpstream(b.Context(), nil, route.ScriptCall{Server: "s", Tool: "t", Params: p}); reply.Error != nil {
				b.Fatal(string(reply.Error))
			}
		}
	}
}
