package route

import (
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// statelessRequest is a request with a full description of the client.
type statelessRequest struct {
	*fakeRequest
	client, level string
}

func (r *statelessRequest) Revision() protocol.Revision { return protocol.Stateless.Newest() }
func (r *statelessRequest) Client() []byte              { return []byte(r.client) }
func (r *statelessRequest) LogLevel() string            { return r.level }

// TestOnBehalf checks that each request to an upstream names the right client: the client of the
// request, not of another request of the same session.
func TestOnBehalf(t *testing.T) {
	g := newRig(t, "a")
	g.lists("a", wire.Tools, "t")
	g.lists("a", wire.Prompts, "p")
	s := g.session("s", `{"roots":{}}`)
	quiet := g.session("quiet", `{}`)
	sent := func() wire.Call {
		t.Helper()
		g.ups["a"].mu.Lock()
		defer g.ups["a"].mu.Unlock()
		calls := g.ups["a"].calls
		g.ups["a"].calls = nil
		calls = slices.DeleteFunc(calls, func(c wire.Call) bool { // see TestRequestLevel
			return c.Method == "logging/setLevel" && string(c.Params) == `{"level":"warning"}`
		})
		if len(calls) != 1 {
			t.Fatalf("%d calls", len(calls))
		}
		return calls[0]
	}
	check := func(what string, origin Origin, client, level string) {
		t.Helper()
		if call := sent(); call.Owner != origin || string(call.Client) != client || call.LogLevel != level {
			t.Errorf("%s: owner %v, client %s, level %q", what, call.Owner, call.Client, call.LogLevel)
		}
	}
	const sees = `{"capabilities":{"sampling":{}},"clientInfo":{"name":"c"}}`
	for _, o := range []struct {
		Origin
		client, level string
	}{
		{s.request("1"), `{"capabilities":{"roots":{}}}`, ""},
		{quiet.request("1"), `{"capabilities":{}}`, ""},
		{&statelessRequest{s.request("2"), sees, "warning"}, sees, "warning"},
		{&statelessRequest{s.request("3"), `{"capabilities":{}}`, ""}, `{"capabilities":{}}`, ""},
	} {
		for method, params := range map[string]string{
			"tools/call": `{"name":"a__t"}`, "prompts/get": `{"name":"a__p"}`, "resources/read": `{"uri":"f:1"}`,
		} {
			g.router.Handle(t.Context(), Call{Method: method, Origin: o.Origin, Params: []byte(params)})
			check(method, o.Origin, o.client, o.level)
		}
		g.router.CallUpstream(t.Context(), o.Origin, ScriptCall{Server: "a", Tool: "t"})
		check("a script's call", o.Origin, o.client, o.level)
	}
	g.ask(s, "logging/setLevel", `{"level":"error"}`)
	sent()
	origin := s.request("4")
	g.router.CallUpstream(t.Context(), origin, ScriptCall{Server: "a", Tool: "t"})
	check("after setLevel", origin, `{"capabilities":{"roots":{}}}`, "error")
	origin = quiet.request("5")
	g.router.CallUpstream(t.Context(), origin, ScriptCall{Server: "a", Tool: "t"})
	check("another session's setLevel", origin, `{"capabilities":{}}`, "")
	g.router.CallUpstream(t.Context(), nil, ScriptCall{Server: "a", Tool: "t"})
	if call := sent(); call.Owner != nil || call.Client != nil || call.LogLevel != "" {
		t.Errorf("without a client: %+v", call)
	}
}
