package compose

import (
	"bytes"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

func TestTimeoutOfACall(t *testing.T) {
	var u upstreams
	u.block("s.slow")
	c := composer(sandboxtest.Guest(t), &u)
	run := func(code string) wire.Reply {
		return c.CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
	}
	const caught = `
try:
    s.slow({}, timeout=0.02)
except ToolError as e:
    return [e.type, e.message]`
	if got, want := get(t, run(caught), "structuredContent", "result"), `["timeout","no answer within 20ms, the timeout of the call"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := get(t, run("s.slow({}, timeout=0.02)"), "structuredContent", "error", "type"); got != `"timeout"` {
		t.Errorf("uncaught it is of type %s", got)
	}
}

func TestMetaOfACall(t *testing.T) {
	for _, tt := range []struct{ request, code, want string }{
		{`{"progressToken":1}`, `s.t()`, ``},
		{`{"progressToken":1,"traceparent":"a"}`, `s.t()`, `{"traceparent":"a"}`},
		{`{"traceparent":"a","x":1.0}`, `s.t({}, meta={"traceparent": "b", "y": {"z": 12345678901234567890}})`, `{"x":1.0,"traceparent":"b","y":{"z":12345678901234567890}}`},
		{`{}`, `s.t({}, meta={"a": 1})`, `{"a":1}`},
		{`{}`, `s.t({}, meta={"progressToken": "mine"})`, ``},
		{`{}`, `s.t(meta={"a": 1})`, ``},
	} {
		var u upstreams
		u.result("s.t", `{}`)
		call := route.Call{Params: fmt.Appendf(nil, `{"name":"job","_meta":%s}`, tt.request)}
		composer(sandboxtest.Guest(t), &u).CallSaved(t.Context(), saved(tt.code), call)
		_, sent, _ := strings.Cut(strings.Join(u.calls(), "\n"), " ")
		if got, _ := wire.Get([]byte(sent), "_meta"); string(got) != tt.want || len(u.calls()) != 1 {
			t.Errorf("%s: the upstream got %s, want _meta %s", tt.code, sent, tt.want)
		}
	}
	var u upstreams
	u.result("s.t", `{}`)
	reply := composer(sandboxtest.Guest(t), &u).CallSaved(t.Context(), saved("s.t({}, meta={'x': 'x' * 70000})"), route.Call{Params: params(`{}`)})
	if got := get(t, reply, "structuredContent", "error", "type"); got != `"validation"` || len(u.calls()) > 0 {
		t.Errorf("a huge meta: %s, %d calls", got, len(u.calls()))
	}
}

// TestArgumentsAreChecked checks that calls refused by a tool's schema are not sent.
func TestArgumentsAreChecked(t *testing.T) {
	var u upstreams
	u.result("s.t", `{"structuredContent":{"n":1}}`)
	u.result("s.odd", `{"structuredContent":{"n":2}}`)
	var log bytes.Buffer
	c := composer(sandboxtest.Guest(t), &u, func(o *Options) {
		all := o.Catalog.(*catalog.Catalog)
		all.SetUpstream("s", wire.Tools, [][]byte{
			[]byte(`{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}`),
			[]byte(`{"name":"odd","inputSchema":{"$ref":"https://example.com/schema"}}`),
		}, nil)
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	run := func(code string) wire.Reply {
		return c.CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
	}
	const caught = `
try:
    s.t({"n": "x", "m": 1})
except ToolError as e:
    return [e.type, e.server, e.tool, [v.pointer for v in e.details.violations], e.message]`
	if got, want := get(t, run(caught), "structuredContent", "result"), `["validation","s","t",["","/n"],"the arguments do not match the tool's inputSchema: `; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	reply := run("s.t()")
	if got := get(t, reply, "structuredContent", "error", "details", "violations"); !strings.Contains(got, `"pointer":""`) {
		t.Errorf("error = %s", get(t, reply, "structuredContent", "error"))
	}
	if calls := get(t, reply, "structuredContent", "toolCalls"); !strings.Contains(calls, `"error":{"type":"validation"`) {
		t.Errorf("calls = %s", calls)
	}
	if n := len(u.calls()); n > 0 {
		t.Errorf("%d calls have left", n)
	}
	if got := get(t, run("return s.t(n=5).n + s.odd(whatever=1).n + s.odd().n"), "structuredContent", "result"); got != "5" {
		t.Errorf("good calls gave %s", got)
	}
	if n := strings.Count(log.String(), "arguments of a tool are not checked"); n != 1 {
		t.Errorf("the schema that cannot be used is told %d times: %s", n, log.String())
	}
}
