package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// testUpstream answers with its name and what it was sent.
type testUpstream struct {
	name string
	err  error
}

func (u testUpstream) Ready(context.Context) error { return u.err }

func (u testUpstream) Call(_ context.Context, method string, params []byte, progress func([]byte)) (wire.Reply, error) {
	if u.err != nil {
		return wire.Reply{}, u.err
	}
	if progress != nil {
		progress([]byte(`{"progress":1}`))
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"server":%q,"method":%q,"params":%s}`, u.name, method, params)}, nil
}

type testHandler struct{ router *Router }

func (h testHandler) CallTool(ctx context.Context, call Call) wire.Reply {
	return h.router.CallUpstream(ctx, "a", "inner", []byte(`{"name":"x"}`), nil)
}

func testRouter() *Router {
	c := catalog.New([]catalog.Source{source("a"), source("down")}, slog.New(slog.DiscardHandler), func() {})
	c.SetUpstream("a", [][]byte{[]byte(`{"name":"get-sum"}`)})
	c.SetUpstream("down", [][]byte{[]byte(`{"name":"x"}`)})
	c.SetComposites([]catalog.Entry{{Name: "mine", Definition: []byte(`{"name":"mine"}`)}})
	r := &Router{
		Catalog:   c,
		Upstreams: map[string]Upstream{"a": testUpstream{name: "a"}, "down": testUpstream{err: errors.New(`upstream "down" exited`)}},
		Settled:   func(context.Context) {},
		Log:       slog.New(slog.DiscardHandler),
	}
	r.Handlers = map[catalog.Kind]Handler{catalog.Composite: testHandler{r}}
	return r
}

func source(name string) catalog.Source {
	return catalog.Source{Server: name, Prefix: name + "__",
		Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }}
}

func TestCallTool(t *testing.T) {
	r := testRouter()
	for _, tt := range []struct{ name, params, want string }{
		{"a__get-sum", `{"arguments":{"n":9007199254740993}, "name":"a__get-sum","_meta":{"k":1}}`,
			`{"server":"a","method":"tools/call","params":{"arguments":{"n":9007199254740993}, "name":"get-sum","_meta":{"k":1}}}`},
		{"mine", `{"name":"mine"}`, `{"server":"a","method":"tools/call","params":{"name":"inner"}}`},
		{"down__x", `{"name":"down__x"}`, `{"content":[{"type":"text","text":"upstream \"down\" exited"}],"isError":true}`},
		{"a__get_sum", `{"name":"a__get_sum"}`, `{"code":-32602,"message":"unknown tool: a__get_sum (did you mean a__get-sum?)"}`},
		{"zzz", `{"name":"zzz"}`, `{"code":-32602,"message":"unknown tool: zzz"}`},
	} {
		reply := r.CallTool(t.Context(), Call{Name: tt.name, Params: []byte(tt.params)})
		if got := string(reply.Result) + string(reply.Error); got != tt.want {
			t.Errorf("%s: got  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestToolOfUpstreamThatIsStillStarting(t *testing.T) {
	r := testRouter()
	r.Settled = func(context.Context) { r.Catalog.SetUpstream("a", [][]byte{[]byte(`{"name":"late"}`)}) }
	reply := r.CallTool(t.Context(), Call{Name: "a__late", Params: []byte(`{"name":"a__late"}`)})
	if want := `{"server":"a","method":"tools/call","params":{"name":"late"}}`; string(reply.Result) != want {
		t.Errorf("got %s%s", reply.Result, reply.Error)
	}
}

func TestCallUpstreamByRealNames(t *testing.T) {
	r := testRouter()
	var heard []string
	reply := r.CallUpstream(t.Context(), "a", "hidden", []byte(`{}`), func(p []byte) { heard = append(heard, string(p)) })
	if want := `{"server":"a","method":"tools/call","params":{"name":"hidden"}}`; string(reply.Result) != want {
		t.Errorf("got %s%s", reply.Result, reply.Error)
	}
	if len(heard) != 1 || heard[0] != `{"progress":1}` {
		t.Errorf("progress %q", heard)
	}
	if reply := r.CallUpstream(t.Context(), "nope", "x", nil, nil); !isError(reply.Result) {
		t.Errorf("unknown upstream: %s", reply.Result)
	}
	if reply := r.CallUpstream(t.Context(), "a", "x", []byte(`[]`), nil); wire.ParseError(reply.Error).Code != wire.CodeInvalidParams {
		t.Errorf("bad params: %s%s", reply.Result, reply.Error)
	}
}

func TestReady(t *testing.T) {
	r := testRouter()
	for server, want := range map[string]string{"a": "<nil>", "down": `upstream "down" exited`, "b": `upstream "b" is not configured`} {
		if err := r.Ready(t.Context(), server); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", server, err, want)
		}
	}
}

func isError(result []byte) bool {
	v, _ := wire.Get(result, "isError")
	return string(v) == "true"
}
