package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// savedScripts has the scripts of saved tools, by name.
type savedScripts map[string]string

func (s savedScripts) Get(name string) (tools.Definition, error) {
	code, ok := s[name]
	if !ok {
		return tools.Definition{}, tools.ErrNotFound
	}
	def := saved(code)
	def.Name = name
	def.InputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	return def, nil
}

func (s savedScripts) List() (all []tools.Definition) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		def, _ := s.Get(name)
		all = append(all, def)
	}
	return all
}

func (s savedScripts) in(o *Options) { o.Saved = s }

// call calls a saved tool.
func (s savedScripts) call(ctx context.Context, c *Composer, name, arguments string) wire.Reply {
	def, _ := s.Get(name)
	return c.CallSaved(ctx, def, route.Call{Params: params(arguments)})
}

func TestCompositesCallComposites(t *testing.T) {
	var u upstreams
	u.add("s.t", func(_ context.Context, p []byte, _ func([]byte)) wire.Reply {
		args, _ := wire.Get(p, "arguments")
		return wire.Reply{Result: fmt.Appendf(nil, `{"structuredContent":%s}`, args)}
	})
	saved := savedScripts{
		"outer":     `return [tools.inner({"n": params.n}), tools["in-ner2"](n="2"), tools.in_ner2.raw(n=3).structuredContent.result]`,
		"inner":     "print('inside')\nreturn s.t({'n': params.n}).n + 1",
		"in-ner2":   "return {'got': params.n}",
		"wrong":     "tools.inner(n='x')",
		"unknown":   "tools.innr()",
		"prefixed":  "tools.s__t({})",
		"fails":     "fail('no:', params.n)",
		"catches":   "try:\n    tools.fails(n=1)\nexcept ToolError as e:\n    return [e.type, e.server, e.tool, e.message]",
		"uncaught":  "tools.fails(n=1)",
		"raw_fails": "return tools.fails.raw(n=1).isError",
		"many":      "return parallel_map(lambda n: tools.inner(n=n), range(20), limit=20)",
	}
	c := composer(sandboxtest.Guest(t), &u, saved.in)
	for name, want := range map[string]string{
		"outer":     `{"result":[6,{"got":2},{"got":3}],`,
		"catches":   `{"result":["tool","tools","fails","no: 1"],`,
		"raw_fails": `{"result":true,`,
		"many":      `{"result":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20],`,
	} {
		if got := get(t, saved.call(t.Context(), c, name, `{"n":5}`), "structuredContent"); !strings.HasPrefix(got, want) {
			t.Errorf("%s gave %s", name, got)
		}
	}
	for name, want := range map[string]string{
		"wrong":    `{"type":"validation","message":"tools.inner: arguments of \"inner\" do not match its inputSchema: /n: got string \"x\", want integer"`,
		"unknown":  `{"type":"runtime","message":"tools.innr: there is no saved tool \"innr\" (did you mean inner?)"`,
		"prefixed": `{"type":"runtime","message":"tools.s__t: there is no saved tool \"s__t\": it is a tool of a server, write s.t"`,
		"uncaught": `{"type":"tool","message":"tools.fails: no: 1"`,
	} {
		if got := get(t, saved.call(t.Context(), c, name, `{}`), "structuredContent", "error"); !strings.HasPrefix(got, want) {
			t.Errorf("%s gave %s", name, got)
		}
	}
	// The calls of inner runs are below the calls of the inner runs' tools.
	reply := saved.call(t.Context(), c, "outer", `{"n":5}`)
	if got, want := get(t, reply, "structuredContent", "toolCalls"), `[{"server":"tools","tool":"inner","params":{"n":5},"result":6,"toolCalls":[{"server":"s","tool":"t","params":{"n":5},"result":{"n":5}}]},`; !strings.HasPrefix(got, want) {
		t.Errorf("calls = %s", got)
	}
}

func TestChainOfComposites(t *testing.T) {
	saved := savedScripts{"a": "tools.b()", "b": "tools.c()", "c": "tools.a()", "me": "tools.me()"}
	for n := range 9 {
		saved[fmt.Sprint("deep", n)] = fmt.Sprintf("return tools.deep%d()", n+1)
	}
	saved["deep9"] = "return 'the end'"
	c := composer(sandboxtest.Guest(t), &upstreams{}, saved.in)
	for name, want := range map[string]string{
		"a":     "saved tools call each other in a cycle: a -> b -> c -> a",
		"me":    "in a cycle: me -> me",
		"deep0": "more than 8 saved tools call one another, a fixed limit: deep0 -> deep1 -> deep2 -> deep3 -> deep4 -> deep5 -> deep6 -> deep7 -> deep8",
	} {
		if got := get(t, saved.call(t.Context(), c, name, `{}`), "structuredContent", "error", "message"); !strings.Contains(got, want) {
			t.Errorf("%s gave %s", name, got)
		}
	}
	if got := get(t, saved.call(t.Context(), c, "deep0", `{}`), "structuredContent", "error", "details", "limit"); got != `"chain"` {
		t.Errorf("limit = %s", got)
	}
	if got := get(t, saved.call(t.Context(), c, "deep2", `{}`), "structuredContent", "result"); got != `"the end"` {
		t.Errorf("eight tools gave %s", got)
	}
	reply := c.Eval(t.Context(), "return tools.deep3()", nil, route.Call{})
	if got := get(t, reply, "structuredContent", "result"); got != `"the end"` {
		t.Errorf("code that is not saved gave %s", reply.Result)
	}
}

// TestNestedRunsShareLimits checks that inner runs use the limits of the tree.
func TestNestedRunsShareLimits(t *testing.T) {
	var u upstreams
	u.result("s.t", `{}`)
	saved := savedScripts{
		"spins":    "x = 0\nwhile x < 30000:\n    x += 1\nreturn x",
		"fuel":     "try:\n    for _ in range(100): tools.spins()\nexcept:\n    return 'caught'",
		"fuel_par": "parallel([lambda: tools.spins()] * 40, errors='collect')",
		"calls5":   "for _ in range(5): s.t()",
		"calls":    "for _ in range(100): tools.calls5()",
	}
	c := composer(sandboxtest.Guest(t), &u, saved.in, func(o *Options) { o.Limits = sandbox.Limits{Fuel: 100_000_000, Calls: 50} })
	for name, limit := range map[string]string{"fuel": "fuel", "fuel_par": "fuel", "calls": "calls"} {
		reply := saved.call(t.Context(), c, name, `{}`)
		e := get(t, reply, "structuredContent", "error")
		if got, _ := wire.GetString([]byte(e), "details", "limit"); got != limit {
			t.Errorf("%s: %s", name, e)
		}
		var fuel uint64
		if raw := get(t, reply, "_meta", ReceiptKey, "fuel"); json.Unmarshal([]byte(raw), &fuel) != nil || limit == "fuel" && fuel < 90_000_000 || fuel > 110_000_000 {
			t.Errorf("%s: fuel in the receipt %s", name, raw)
		}
	}
	if n := len(u.calls()); n < 30 || n > 50 {
		t.Errorf("%d calls were made", n)
	}
}

// TestProgressOfATree checks that the progress of a tree is a single sequence.
func TestProgressOfATree(t *testing.T) {
	var u upstreams
	u.result("s.t", `{}`)
	saved := savedScripts{"outer": "tools.inner()\ns.t()", "inner": "s.t()\ns.t()"}
	c := composer(sandboxtest.Guest(t), &u, saved.in)
	var s sink
	def, _ := saved.Get("outer")
	c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`), Progress: s.send})
	last, all := 0.0, ""
	for _, p := range s.params {
		value, _ := number([]byte(p), "progress")
		if value <= last {
			t.Errorf("%s after %v", p, last)
		}
		last, all = value, all+p+"\n"
	}
	if last != 2 || !strings.Contains(all, `"message":"tools.inner: s.t"`) {
		t.Errorf("progress:\n%s", all)
	}
}
