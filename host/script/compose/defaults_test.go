package compose

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// TestDefaultsOfUpstreams checks that a required property with a default may be left out, and that
// the call is sent as written by the script.
func TestDefaultsOfUpstreams(t *testing.T) {
	var u upstreams
	u.result("s.shot", `{"structuredContent":{"n":1}}`)
	c := composer(sandboxtest.Guest(t), &u, func(o *Options) {
		o.Catalog.(*catalog.Catalog).SetUpstream("s", wire.Tools, [][]byte{[]byte(
			`{"name":"shot","inputSchema":{"type":"object","properties":{"type":{"default":"png","type":"string"},"name":{"type":"string"}},"required":["type"],"additionalProperties":false}}`)}, nil)
	})
	reply := c.CallSaved(t.Context(), saved("return [s.shot().n, s.shot(name='a').n]"), route.Call{Params: params(`{}`)})
	if got := get(t, reply, "structuredContent", "result"); got != "[1,1]" {
		t.Fatalf("%s", reply.Result)
	}
	if got := strings.Join(u.calls(), "\n"); got != `s {"name":"shot","arguments":{}}`+"\n"+`s {"name":"shot","arguments":{"name":"a"}}` {
		t.Errorf("sent were\n%s", got)
	}
	for code, want := range map[string]int{
		"return s.shot()":                         0,
		"return s.shot({'name': params['n']})":    0,
		"return s.shot({'named': params['n']})":   1,
		"return s.shot(**params)":                 0,
		"undo(s.shot)":                            0,
		"return s.shot({'type': 5})":              1,
		"return s.shot({'name': params, 'x': 1})": 1,
	} {
		if warnings, err := c.Lint(t.Context(), "job", code); err != nil || len(warnings) != want {
			t.Errorf("%s: %v, %v", code, warnings, err)
		}
	}
}

// TestDefaultsOfSavedTools checks that a saved tool has its defaults in params, for
// every caller.
func TestDefaultsOfSavedTools(t *testing.T) {
	var u upstreams
	u.result("s.t", `{"content":[]}`)
	inner := saved("return [params.days, params.place.unit]")
	inner.Name, inner.InputSchema = "inner", json.RawMessage(`{"type":"object","properties":{
		"days":{"type":"integer","default":3},
		"place":{"type":"object","properties":{"unit":{"type":"string","default":"C"}}},
		"never":{"type":"integer","default":"x"}},"required":["place","days"]}`)
	c := composer(sandboxtest.Guest(t), &u, func(o *Options) { o.Saved = savedTools{"inner": inner} })
	reply := c.CallSaved(t.Context(), inner, route.Call{Params: []byte(`{"name":"inner","arguments":{"place":{}}}`)})
	if got := get(t, reply, "structuredContent", "result"); got != `[3,"C"]` {
		t.Errorf("called by a client: %s", reply.Result)
	}
	reply = c.CallSaved(t.Context(), saved("return tools.inner(place={'unit': 'F'}, days='5')"), route.Call{Params: params(`{}`)})
	if got := get(t, reply, "structuredContent", "result"); got != `[5,"F"]` {
		t.Errorf("called by a script: %s", reply.Result)
	}
	reply = c.CallSaved(t.Context(), saved("return tools.inner()"), route.Call{Params: params(`{}`)})
	if got := get(t, reply, "structuredContent", "error", "message"); !strings.Contains(got, "missing property") || strings.Contains(got, "days") {
		t.Errorf("without what has no default: %s", got)
	}
}
