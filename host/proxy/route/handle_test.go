package route

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

type testHandler struct{ router *Router }

func (h testHandler) CallTool(ctx context.Context, name string, call Call) wire.Reply {
	return h.router.CallUpstream(ctx, call.Origin, ScriptCall{Server: "a", Tool: name + "-inner", Params: []byte(`{"name":"x"}`)})
}

// fullRig has two upstreams with items on every surface, an unavailable upstream, and a saved
// tool.
func fullRig(t *testing.T) *rig {
	g := newRig(t, "a", "b", "down")
	g.ups["down"].err = errDown
	g.lists("a", wire.Tools, "get-sum")
	g.lists("down", wire.Tools, "x")
	g.lists("a", wire.Prompts, "p")
	g.lists("b", wire.Prompts, "p", "odd name")
	g.lists("down", wire.Prompts, "p")
	g.lists("a", wire.Resources, "file:///1", "file:///both")
	g.lists("b", wire.Resources, "file:///2", "file:///both")
	g.lists("down", wire.Resources, "down:///1")
	g.lists("b", wire.Templates, "db://{table}/{id}")
	g.router.Catalog.SetComposites([]catalog.Entry{{Name: "mine", Definition: []byte(`{"name":"mine","inputSchema":{"type":"object"}}`)}})
	g.router.Register(catalog.Composite, testHandler{g.router})
	return g
}

func TestHandle(t *testing.T) {
	g := fullRig(t)
	s := g.session("s", `{}`)
	odd := catalog.PublicName("b__", "odd name")
	echo := func(server, method, params string) string {
		return `{"server":"` + server + `","method":"` + method + `","params":` + params + `}`
	}
	for _, tt := range []struct{ method, params, want string }{
		{"tools/list", `{}`, `{"tools":[{"name":"mine","inputSchema":{"type":"object"}},{"name":"a__get-sum","inputSchema":{"type":"object"}},{"name":"down__x","inputSchema":{"type":"object"}}]}`},
		{"tools/list", `{"cursor":1}`, `{"code":-32602,"message":"tools/list: params.cursor must be a string, got 1"}`},
		{"tools/list", `{"cursor":"?"}`, `{"code":-32602,"message":"tools/list: invalid cursor (take nextCursor of an earlier page, or none)"}`},
		{"resources/list", ``, `{"resources":[{"uri":"file:///1","name":"n"},{"uri":"file:///both","name":"n"},{"uri":"file:///2","name":"n"},{"uri":"down:///1","name":"n"}]}`},
		{"resources/templates/list", `{}`, `{"resourceTemplates":[{"uriTemplate":"db://{table}/{id}","name":"n"}]}`},
		{"prompts/list", `{}`, `{"prompts":[{"name":"a__p"},{"name":"` + odd + `"},{"name":"b__p"},{"name":"down__p"}]}`},

		{"tools/call", `{"arguments":{"n":9007199254740993}, "name":"a__get-sum","_meta":{"k":1}}`,
			echo("a", "tools/call", `{"arguments":{"n":9007199254740993}, "name":"get-sum","_meta":{"k":1}}`)},
		{"tools/call", `{"name":"mine"}`, echo("a", "tools/call", `{"name":"mine-inner"}`)},
		{"tools/call", `{"name":"mine","task":{}}`, `{"code":-32601,"message":"tools/call: tool \"mine\" cannot be called as a task"}`},
		{"tools/call", `{"name":"down__x"}`, `{"content":[{"type":"text","text":"upstream \"down\" exited"}],"isError":true}`},
		{"tools/call", `{"name":"a__get_sum"}`, `{"code":-32602,"message":"unknown tool: a__get_sum (did you mean a__get-sum?)"}`},
		{"tools/call", `{"name":1}`, `{"code":-32602,"message":"tools/call: params.name must be a string"}`},
		{"tools/call", ``, `{"code":-32602,"message":"tools/call: params.name must be a string"}`},
		{"tools/call", `{"name":"a__get-sum","arguments":[]}`, `{"code":-32602,"message":"tools/call: params.arguments must be an object"}`},
		{"tools/call", `{"name":"a__get-sum","_meta":1}`, `{"code":-32602,"message":"tools/call: params._meta must be an object"}`},

		{"prompts/get", `{"name":"` + odd + `","arguments":{}}`, echo("b", "prompts/get", `{"name":"odd name","arguments":{}}`)},
		{"prompts/get", `{"name":"a__q"}`, `{"code":-32602,"message":"unknown prompt: a__q (did you mean a__p, b__p?)"}`},
		{"prompts/get", `{"name":"down__p"}`, `{"code":-32603,"message":"prompts/get: upstream \"down\" exited"}`},

		{"resources/read", `{"uri":"file:///both", "_meta":{}}`, echo("a", "resources/read", `{"uri":"file:///both", "_meta":{}}`)},
		{"resources/read", `{"uri":"file:///2"}`, echo("b", "resources/read", `{"uri":"file:///2"}`)},
		{"resources/read", `{"uri":"db://t/1"}`, echo("b", "resources/read", `{"uri":"db://t/1"}`)},
		{"resources/read", `{"uri":"down:///1"}`, `{"code":-32603,"message":"resources/read: upstream \"down\" exited"}`},
		{"resources/read", `{}`, `{"code":-32602,"message":"resources/read: params.uri must be a string"}`},

		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"b__p","x":1},"argument":{}}`,
			echo("b", "completion/complete", `{"ref":{"type":"ref/prompt","name":"p","x":1},"argument":{}}`)},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"db://{table}/{id}"}}`,
			echo("b", "completion/complete", `{"ref":{"type":"ref/resource","uri":"db://{table}/{id}"}}`)},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"file:///1"}}`,
			echo("a", "completion/complete", `{"ref":{"type":"ref/resource","uri":"file:///1"}}`)},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"zz"}}`, `{"code":-32602,"message":"unknown prompt: zz"}`},
		{"completion/complete", `{"ref":{"type":"ref/new"}}`, `{"code":-32602,"message":"completion/complete: unknown params.ref.type \"ref/new\""}`},
		{"completion/complete", `{"ref":"x"}`, `{"code":-32602,"message":"completion/complete: params.ref.type must be a string"}`},

		{"x/unknown", `{}`, `{"code":-32601,"message":"method not found: x/unknown"}`},
	} {
		if got := g.ask(s, tt.method, tt.params); got != tt.want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", tt.method, tt.params, got, tt.want)
		}
	}
}

// TestErrorsPassVerbatim checks that errors of an upstream are passed on unchanged.
func TestErrorsPassVerbatim(t *testing.T) {
	g := fullRig(t)
	s := g.session("s", `{}`)
	const raw = `{"message":"m","data":{"n":1e400},"code":-7}`
	for method, params := range map[string]string{
		"tools/call": `{"name":"a__get-sum"}`, "prompts/get": `{"name":"a__p"}`, "resources/read": `{"uri":"file:///1"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"a__p"}}`, "resources/subscribe": `{"uri":"file:///1"}`,
	} {
		g.ups["a"].on(method, raw)
		if got := g.ask(s, method, params); got != raw {
			t.Errorf("%s: %s", method, got)
		}
	}
}

// TestResourceThatNobodyLists checks that the upstreams with resources are asked in order.
func TestResourceThatNobodyLists(t *testing.T) {
	g := newRig(t, "a", "b", "c")
	s := g.session("s", `{}`)
	const missing = `{"code":-32002,"message":"resource not found: x:1","data":{"uri":"x:1"}}`
	g.ups["a"].on("resources/read", `{"code":-1,"message":"no"}`)
	g.ups["c"].server = `{"capabilities":{"tools":{}}}`
	if got, want := g.ask(s, "resources/read", `{"uri":"x:1"}`), `{"server":"b","method":"resources/read","params":{"uri":"x:1"}}`; got != want {
		t.Errorf("got %s", got)
	}
	g.ups["b"].on("resources/read", `{"code":-2,"message":"no"}`)
	if got := g.ask(s, "resources/read", `{"uri":"x:1"}`); got != missing {
		t.Errorf("nobody has it: %s", got)
	}
	g.ups["b"].server = `{"capabilities":{}}`
	if got := g.ask(s, "resources/read", `{"uri":"x:1"}`); got != `{"code":-1,"message":"no"}` {
		t.Errorf("of the only one: %s", got)
	}
	want(t, "asked", g.ups["c"].sent())
}

// TestResourceFromResult checks that a URI given to a session by a server is read only from this
// server, if no server lists the URI.
func TestResourceFromResult(t *testing.T) {
	g := newRig(t, "a", "b")
	g.lists("b", wire.Tools, "tool")
	s, other := g.session("s", `{}`), g.session("other", `{}`)
	for i, result := range []string{
		`{"content":[{"type":"text","text":"x"},{"type":"resource_link","name":"x","uri":"file:///URI"}]}`,
		`{"content":[{"type":"resource","resource":{"uri":"file:///URI","text":"x"}}]}`,
	} {
		uri := fmt.Sprintf("file:///x%d", i)
		g.ups["b"].on("tools/call", strings.ReplaceAll(result, "file:///URI", uri))
		read := fmt.Sprintf(`{"uri":%q}`, uri)
		g.ask(s, "tools/call", `{"name":"b__tool"}`)
		g.ups["a"].sent()
		if got := g.ask(s, "resources/read", read); got != `{"server":"b","method":"resources/read","params":`+read+`}` {
			t.Errorf("%s: got %s", result, got)
		}
		if sent := g.ups["a"].sent(); len(sent) > 0 {
			t.Errorf("%s: another server was asked: %s", result, sent)
		}
		if got := g.ask(other, "resources/read", read); !strings.HasPrefix(got, `{"server":"a"`) {
			t.Errorf("%s: another session got %s", result, got)
		}
		g.ups["b"].on("resources/read", `{"code":-2,"message":"no"}`)
		g.ups["a"].sent()
		if got := g.ask(s, "resources/read", read); got != `{"code":-2,"message":"no"}` || len(g.ups["a"].sent()) > 0 {
			t.Errorf("%s: refused: %s", result, got)
		}
		delete(g.ups["b"].answer, "resources/read")
	}
}

// TestListens checks that a session can set a log level whatever upstreams offer, since scripts
// also log.
func TestListens(t *testing.T) {
	g := newRig(t, "a")
	g.ups["a"].server = `{"capabilities":{"tools":{}}}`
	s, other := g.session("s", `{}`), g.session("other", `{}`)
	listens := func() (levels string) {
		for _, level := range []string{"debug", "info", "warning", "error"} {
			if g.router.Listens(s, level) {
				levels += level + " "
			}
		}
		return levels
	}
	want(t, "at first", []string{listens()}, "")
	want(t, "set", []string{g.ask(s, "logging/setLevel", `{"level":"warning"}`)}, `{}`)
	want(t, "from warning on", []string{listens()}, "warning error ")
	if g.router.Listens(other, "error") {
		t.Error("another session gets messages that it has not asked for")
	}
	want(t, "asked", g.ups["a"].sent())
}

func TestMissingCapabilities(t *testing.T) {
	g := newRig(t, "a")
	g.ups["a"].server = `{"capabilities":{"tools":{}}}`
	s := g.session("s", `{}`)
	for method, params := range map[string]string{
		"resources/list": `{}`, "resources/templates/list": `{}`, "prompts/list": `{}`, "resources/read": `{"uri":"x"}`,
		"resources/subscribe": `{"uri":"x"}`, "resources/unsubscribe": `{"uri":"x"}`, "completion/complete": `{}`,
		"tasks/list": `{}`, "tasks/get": `{"taskId":"x"}`,
	} {
		if got, want := g.ask(s, method, params), `{"code":-32601,"message":"method not found: `+method+`"}`; got != want {
			t.Errorf("%s: %s", method, got)
		}
	}
	want(t, "asked", g.ups["a"].sent())
}

func TestUnknownMethodWithOneUpstream(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", `{}`)
	if got, want := g.ask(s, "x/new", `{"y":1}`), `{"server":"a","method":"x/new","params":{"y":1}}`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestNamesOfStartingUpstreams(t *testing.T) {
	for method, params := range map[string]string{
		"tools/call": `{"name":"a__late"}`, "prompts/get": `{"name":"a__late"}`, "resources/read": `{"uri":"late"}`,
		"completion/complete": `{"ref":{"type":"ref/resource","uri":"late"}}`,
	} {
		g := newRig(t, "b", "a")
		s := g.session("s", `{}`)
		g.router.Settled = func(context.Context) {
			for _, surface := range wire.Surfaces {
				g.lists("a", surface, "late")
			}
		}
		if got := g.ask(s, method, params); !strings.HasPrefix(got, `{"server":"a",`) {
			t.Errorf("%s: %s", method, got)
		}
	}
}

func TestSavedToolsOfOtherProcesses(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", `{}`)
	g.router.Register(catalog.Composite, testHandler{g.router})
	g.router.Refresh = func(Session) {
		g.router.Catalog.SetComposites([]catalog.Entry{{Name: "new", Definition: []byte(`{"name":"new","inputSchema":{"type":"object"}}`)}})
	}
	if got := g.ask(s, "tools/call", `{"name":"new"}`); !strings.Contains(got, "new-inner") {
		t.Errorf("got %s", got)
	}
}

func TestCallUpstreamByRealNames(t *testing.T) {
	g := fullRig(t)
	var heard []string
	s := g.session("s", `{}`)
	g.ups["a"].answer["tools/call"] = func(_ context.Context, call wire.Call) (wire.Reply, error) {
		call.Progress([]byte(`{"progress":1}`))
		return wire.Reply{Result: call.Params}, nil
	}
	o := s.request("1")
	reply := g.router.CallUpstream(t.Context(), o, ScriptCall{Server: "a", Tool: "hidden", Params: []byte(`{}`), Progress: func(p []byte) { heard = append(heard, string(p)) }})
	if string(reply.Result) != `{"name":"hidden"}` || g.ups["a"].calls[0].Owner != any(o) {
		t.Errorf("got %s%s of %v", reply.Result, reply.Error, g.ups["a"].calls[0].Owner)
	}
	want(t, "progress", heard, `{"progress":1}`)
	if reply := g.router.CallUpstream(t.Context(), nil, ScriptCall{Server: "nope", Tool: "x"}); !strings.Contains(string(reply.Result), `"isError":true`) {
		t.Errorf("unknown upstream: %s", reply.Result)
	}
	if reply := g.router.CallUpstream(t.Context(), o, ScriptCall{Server: "a", Tool: "x", Params: []byte(`[]`)}); wire.ParseError(reply.Error).Code != wire.CodeInvalidParams {
		t.Errorf("bad params: %s%s", reply.Result, reply.Error)
	}
	for server, want := range map[string]string{"a": "<nil>", "down": errDown.Error(), "zz": `upstream "zz" is not configured`} {
		err := g.router.Ready(t.Context(), nil, server)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("Ready(%s): %s", server, got)
		}
	}
}
