package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// savedTools has saved tools, by name.
type savedTools map[string]tools.Definition

func (l savedTools) Get(name string) (tools.Definition, error) {
	d, ok := l[name]
	if !ok {
		return d, tools.ErrNotFound
	}
	return d, nil
}

func (l savedTools) List() []tools.Definition {
	var all []tools.Definition
	for _, name := range slices.Sorted(maps.Keys(l)) {
		all = append(all, l[name])
	}
	return all
}

func (l savedTools) add(name, code string) {
	schema := `{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`
	l[name] = tools.Definition{Name: name, Description: "d", InputSchema: json.RawMessage(schema), Code: code}
}

// serverDown reports the server "down" as down, and counts the requests for the server.
type serverDown struct {
	upstreams
	asked int
}

func (s *serverDown) Ready(_ context.Context, _ route.Origin, server string) error {
	s.asked++
	if server == "down" {
		return errors.New("it is down")
	}
	return nil
}

func lintComposer(t testing.TB) (*Composer, *serverDown) {
	all := func(string) bool { return true }
	c := catalog.New([]catalog.Source{
		{Server: "git-hub", Exposes: all, Hides: func(tool string) bool { return tool == "secret" }},
		{Server: "down", Exposes: all, Hides: func(string) bool { return false }},
	}, quiet(), func(*catalog.Scope, wire.Surface, []byte) {})
	c.SetUpstream("git-hub", wire.Tools, [][]byte{
		[]byte(`{"name":"search","inputSchema":{"type":"object","properties":{"q":{"type":"string"},"limit":{"type":"integer","maximum":100},"in":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}},"required":["q"],"additionalProperties":false}}`),
		[]byte(`{"name":"any"}`),
		[]byte(`{"name":"secret"}`),
		[]byte(`{"name":"a-b"}`), []byte(`{"name":"a.b"}`),
	}, nil)
	saved := savedTools{}
	saved.add("other", "return params.n")
	saved.add("b-1", "return tools.c({})")
	saved.add("c", "return tools.me({})")
	saved["open"] = tools.Definition{Name: "open", Description: "d", InputSchema: json.RawMessage(`{"type":"object","properties":{"area":{},"meta":{}}}`), Code: "return 1"}
	up := &serverDown{}
	return New(Options{Sandbox: sandboxtest.Guest(t), Catalog: c, Upstreams: up, Saved: saved, Log: quiet()}), up
}

func TestLint(t *testing.T) {
	const not = ": the arguments do not match the tool's inputSchema: "
	const sent = " is sent as an argument, but the tool has no argument of that name: if it is an option of the call, pass the arguments as a dict: ({...}, "
	c, up := lintComposer(t)
	for _, tt := range []struct {
		code string
		want []string
	}{
		{"return git_hub.search({'q': 'x', 'limit': 5})", nil},
		{"x = 1\nreturn git_hub.serch({'q': 'x'})", []string{
			"1:1 x is assigned but never used", `2:8 server "git-hub" has no tool "serch" (did you mean search?)`}},
		{"git_hub.search(limit='5')", []string{
			"1:1 git-hub.search" + not + `/: missing property "q"`, "1:1 git-hub.search" + not + `/limit: got string "5", want integer`}},
		{"git_hub.search({'q': params.q, 'limit': 500, 'in': {'a': [1, params.x]}, 'more': params.y})", []string{
			"1:1 git-hub.search" + not + "/in/a/0: got number 1, want string", "1:1 git-hub.search" + not + "/limit: got 500, want at most 100",
			"1:1 git-hub.search" + not + `/: unknown property "more"`}},
		{"git_hub.search({'limit': params.n})\ngit_hub.search(limit=params.n, **params)\ngit_hub.search(params)", []string{
			"1:1 git-hub.search" + not + `/: missing property "q"`}},
		{"git_hub.secret()\ngit_hub.a_b()\ngit_hub['a.b'](x=1)\ngit_hub.any({'x': 1})\ngit_hub['search']({'q': 1}, timeout=1)", []string{
			`1:1 tool "secret" of server "git-hub" may not be called (the configuration hides it)`,
			`2:1 tools of server "git-hub" share the script name "a_b": write git_hub["a-b"] or git_hub["a.b"]`,
			"5:1 git-hub.search" + not + "/q: got number 1, want string"}},
		{"down.what()\ndown.ever({'x': 1})", []string{"1:1 calls of down are not checked: it is down"}},
		{"github.search()", []string{"1:1 no server is called github (did you mean git_hub?)"}},
		{"parallel_map(git_hub.none, [])\nundo(git_hub.search, q=2)", []string{
			`1:14 server "git-hub" has no tool "none" (it has a_b, any, search)`, "2:6 git-hub.search" + not + "/q: got number 2, want string"}},
		{"tools.other(n='5')", nil}, // the argument is converted to the type in the schema
		{"tools.other(n='x')\ntools.othr()", []string{
			"1:1 tools.other" + not + `/n: got string "x", want integer`, `2:1 there is no saved tool "othr" (did you mean other?)`}},
		{"git_hub.search(q='x', timeout=5)", []string{
			"1:1 git-hub.search: timeout" + sent + "timeout=...)", "1:1 git-hub.search" + not + `/: unknown property "timeout" (known: in, limit, q)`}},
		{"tools.open(area='Dogger', timeout=params.t, meta={})\ntools.open({'timeout': 5}, meta={})\ntools.open({'area': 'x'}, timeout=5)\ngit_hub.any(timeout=5)", []string{
			"1:1 tools.open: timeout" + sent + "timeout=...)", "2:1 tools.open: timeout" + sent + "timeout=...)"}},
		{"tools.git_hub__search({})", []string{`1:1 there is no saved tool "git_hub__search": it is a tool of a server, write git_hub.search`}},
		{"tools.me({})", []string{"1:1 me calls itself, which saved tools cannot"}},
		{"[tools.other({}), tools.c({}), tools.b_1({}), tools['b-1']({})]", []string{
			"1:19 saved tools call each other in a cycle, which is refused: me -> c -> me",
			"1:32 saved tools call each other in a cycle, which is refused: me -> b-1 -> c -> me",
			"1:47 saved tools call each other in a cycle, which is refused: me -> b-1 -> c -> me"}},
		{"x = ", nil},
	} {
		found, err := c.Lint(t.Context(), "me", tt.code)
		if err != nil {
			t.Fatalf("%s: %v", tt.code, err)
		}
		var got []string
		for _, w := range found {
			got = append(got, fmt.Sprintf("%d:%d %s", w.Line, w.Column, w.Message))
			if !strings.Contains(tt.code, w.Source) || w.Source == "" {
				t.Errorf("%s: source %q", tt.code, w.Source)
			}
		}
		if got, want := strings.Join(got, "\n"), strings.Join(tt.want, "\n"); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", tt.code, got, want)
		}
	}
	if up.asked != 3 { // serch, none, and once for the server "down"
		t.Errorf("asked %d times whether a server is ready", up.asked)
	}
	if n := len(up.calls()); n > 0 {
		t.Errorf("%d calls", n)
	}
	many, err := c.Lint(t.Context(), "me", strings.Repeat("git_hub.none()\n", 300))
	if err != nil || len(many) != maxWarnings {
		t.Errorf("%d warnings, %v", len(many), err)
	}
}

// oneOutcome is a sandbox with the same outcome for everything.
type oneOutcome struct {
	fakeSandbox
	outcome sandbox.Outcome
}

func (o oneOutcome) Run(context.Context, sandbox.Run) (sandbox.Outcome, error) { return o.outcome, nil }

// TestLintFails checks a failing sandbox, and an ending context.
func TestLintFails(t *testing.T) {
	for name, outcome := range map[string]sandbox.Outcome{
		"another type": {Result: []byte(`[]`)},
		"an error":     {Err: &abi.Error{Type: abi.ErrInternal, Message: "it panicked"}},
	} {
		var u upstreams
		c := composer(oneOutcome{outcome: outcome}, &u)
		var f *Failure
		if _, err := c.Lint(t.Context(), "x", "1"); !errors.As(err, &f) || f.Type != abi.ErrInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, _ := lintComposer(t)
	var f *Failure
	if _, err := c.Lint(ctx, "x", "1"); !errors.As(err, &f) || f.Type != abi.ErrCancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLintParams checks the warnings about arguments missing in the inputSchema.
func TestLintParams(t *testing.T) {
	c, _ := lintComposer(t)
	const code = "return [params.dirr, params['limit'], params.get(\"lmit\"), params.zzz]"
	const here = "inputSchema has no property "
	closed := []string{here + `"dirr" (did you mean dir?)`, here + `"lmit" (did you mean limit?)`, here + `"zzz"`}
	for schema, want := range map[string][]string{
		`{"type":"object","properties":{"dir":{},"limit":{}}}`:                                   closed,
		`{"type":"object","properties":{"dir":{},"limit":{}},"additionalProperties":false}`:      closed,
		`{"type":"object","properties":{"dir":{},"limit":{}},"additionalProperties":true}`:       nil,
		`{"type":"object","properties":{"dir":{},"limit":{}},"additionalProperties":{}}`:         nil,
		`{"type":"object","properties":{"dir":{},"limit":{}},"patternProperties":{".":{}}}`:      nil,
		`{"type":"object","properties":{"dir":{},"limit":{}},"allOf":[{"properties":{"x":{}}}]}`: nil,
		`{"type":"object","properties":{"dirr":{},"limit":{},"lmit":{},"zzz":{}}}`:               nil,
		`{"type":"object"}`: nil,
		``:                  nil,
	} {
		found, err := c.LintTool(t.Context(), tools.Definition{Name: "me", Code: code, InputSchema: json.RawMessage(schema)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range found {
			got = append(got, w.Message)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", schema, got, want)
		}
	}
}
