package route

import (
	"context"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

func (g *rig) notice(server, method, params string, of ...any) {
	g.router.OnNotification(server, wire.Inbound{Method: method, Params: []byte(params), Owners: owners(of...)})
}

func TestLogMessages(t *testing.T) {
	g := newRig(t, "a", "b")
	x, y := g.session("x", `{}`), g.session("y", `{}`)
	level := func(s *fakeSession, level string) {
		t.Helper()
		if got := g.ask(s, "logging/setLevel", `{"level":"`+level+`","_meta":{}}`); got == "" || got[2] == 'c' {
			t.Errorf("setLevel %s: %s", level, got)
		}
	}
	g.notice("a", "notifications/message", `{"level":"debug","data":"all","logger":"l"}`)
	want(t, "x, before any request", x.heard(), `notifications/message {"level":"debug","data":"all","logger":"a/l"}`)
	want(t, "y, before any request", y.heard(), `notifications/message {"level":"debug","data":"all","logger":"a/l"}`)

	level(x, "error")
	want(t, "a", g.ups["a"].sent(), `logging/setLevel {"level":"error","_meta":{}}`)
	level(y, "debug")
	level(x, "warning")
	want(t, "a", g.ups["a"].sent(), `logging/setLevel {"level":"debug","_meta":{}}`, `logging/setLevel {"level":"debug","_meta":{}}`)
	for _, l := range []string{"info", "warning", "alert", "odd"} {
		g.notice("a", "notifications/message", `{"level":"`+l+`","logger":""}`)
	}
	want(t, "x", x.heard(), `notifications/message {"level":"warning","logger":"a"}`,
		`notifications/message {"level":"alert","logger":"a"}`, `notifications/message {"level":"odd","logger":"a"}`)
	if n := len(y.heard()); n != 4 {
		t.Errorf("y heard %d messages", n)
	}
	g.notice("a", "notifications/message", `{"level":"info"}`, x.request("1")) // x does not want the level
	want(t, "x", x.heard())
	want(t, "y", y.heard()) // and the message does not belong to y

	g.ups["b"].sent()
	g.router.OnReady("b")
	want(t, "b, ready for the first time", g.ups["b"].sent())
	g.router.OnReady("b")
	want(t, "b, started again", g.ups["b"].sent(), `logging/setLevel {"level":"debug"}`)

	z := g.session("z", `{}`) // never asks, while x and y have asked
	g.notice("a", "notifications/message", `{"level":"debug"}`)
	g.notice("a", "notifications/message", `{"level":"info"}`)
	want(t, "z", z.heard(), `notifications/message {"level":"info","logger":"a"}`)

	g.ups["a"].sent()
	g.router.EndSession(y)
	g.router.background.Wait()
	want(t, "a, without y", g.ups["a"].sent(), `logging/setLevel {"level":"warning"}`)
}

func TestLogLevels(t *testing.T) {
	g := newRig(t, "a", "b", "c")
	s := g.session("s", `{}`)
	const unknown = `{"code":-32602,"message":"logging/setLevel: unknown level \"loud\" (known are debug, info, notice, warning, error, critical, alert, emergency)"}`
	for params, want := range map[string]string{
		`{"level":"loud"}`: unknown,
		`{"level":1}`:      `{"code":-32602,"message":"logging/setLevel: params.level must be a string"}`,
	} {
		if got := g.ask(s, "logging/setLevel", params); got != want {
			t.Errorf("%s: %s", params, got)
		}
	}
	g.ups["c"].server = `{"capabilities":{}}`
	g.ups["a"].on("logging/setLevel", `{"code":-1,"message":"a"}`)
	g.ups["b"].on("logging/setLevel", `{"x":1}`)
	if got := g.ask(s, "logging/setLevel", `{"level":"info"}`); got != `{"x":1}` {
		t.Errorf("one took it: %s", got)
	}
	g.ups["b"].on("logging/setLevel", `{"code":-2,"message":"b"}`)
	if got := g.ask(s, "logging/setLevel", `{"level":"info"}`); got != `{"code":-1,"message":"a"}` {
		t.Errorf("none took it: %s", got)
	}
	want(t, "c has no logging", g.ups["c"].sent())
}

func TestMessageOfAnUpstreamWithoutPrefix(t *testing.T) {
	g := newRig(t, "a")
	all := func(string) bool { return true }
	g.router.Catalog = catalog.New([]catalog.Source{{Server: "a", Exposes: all, Hides: all}}, g.router.Log, func(*catalog.Scope, wire.Surface, []byte) {})
	s := g.session("s", `{}`)
	g.notice("a", "notifications/message", `{"level": "info"}`)
	want(t, "s", s.heard(), `notifications/message {"level": "info"}`)
}

func TestOtherNotifications(t *testing.T) {
	g := newRig(t, "a")
	x, y := g.session("x", `{}`), g.session("y", `{}`)
	for _, method := range []string{"notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed"} {
		g.notice("a", method, `{}`)
	}
	want(t, "list_changed", x.heard()) // changes are announced by the catalog
	g.notice("a", "notifications/new", `{"k":1}`, x.request("1"))
	want(t, "x", x.heard(), `1: notifications/new {"k":1}`)
	g.notice("a", "notifications/new", `{"k":2}`)
	want(t, "x", x.heard(), `notifications/new {"k":2}`)
	want(t, "y", y.heard(), `notifications/new {"k":2}`)
	g.notice("a", "notifications/new", `{"k":3}`, x.request("1"), y.request("1"))
	want(t, "x", x.heard())
	want(t, "y", y.heard())
}

func TestChangesAreAnnounced(t *testing.T) {
	g := newRig(t, "a")
	x := g.session("x", `{}`)
	g.lists("a", wire.Prompts, "p")
	g.lists("a", wire.Prompts, "p")
	if len(x.changes) != 1 || x.changes[0] != wire.Prompts {
		t.Errorf("told of %q", x.changes)
	}
}

func TestElicitationOutsideOfTheProtocol(t *testing.T) {
	g := newRig(t, "a", "b")
	x, y := g.session("x", able), g.session("y", able)
	ask := wire.Inbound{Method: "elicitation/create", Params: []byte(`{"mode":"url","elicitationId":"e1"}`), Owners: owners(x.request("1"))}
	g.router.OnRequest(t.Context(), "a", ask)
	g.lists("a", wire.Tools, "t")
	g.ups["a"].on("tools/call", `{"code":-32042,"message":"go there","data":{"elicitations":[{"elicitationId":"e2"},{}]}}`)
	g.ask(y, "tools/call", `{"name":"a__t"}`)
	for _, id := range []string{"e1", "e2", "e3"} {
		g.notice("a", "notifications/elicitation/complete", `{"elicitationId":"`+id+`"}`)
	}
	g.notice("b", "notifications/elicitation/complete", `{"elicitationId":"e1"}`) // not b's
	want(t, "x", x.heard(), `notifications/elicitation/complete {"elicitationId":"e1"}`)
	want(t, "y", y.heard(), `notifications/elicitation/complete {"elicitationId":"e2"}`)
	g.router.EndSession(y)
	g.notice("a", "notifications/elicitation/complete", `{"elicitationId":"e3"}`)
	want(t, "the only one", x.heard(), `notifications/elicitation/complete {"elicitationId":"e3"}`)
}

func TestNotificationsOfClients(t *testing.T) {
	g := newRig(t, "a", "b")
	s := g.session("s", able)
	g.router.Notified(s, "notifications/roots/list_changed", nil)
	g.router.Notified(s, "notifications/new", []byte(`{"k":1}`))
	for _, up := range g.ups {
		for _, want := range []string{"notifications/roots/list_changed ", `notifications/new {"k":1}`} {
			if got := <-up.notice; got != want {
				t.Errorf("%s got %s", up.name, got)
			}
		}
	}
}

// gateOf is a Gate: policy denies requests about a server, and asks for everything else.
type gateOf string

func (gateOf) Active() bool { return true }

func (g gateOf) Decide(r policy.Request) policy.Decision {
	if r.Kind == policy.KindMethod && r.Server == string(g) {
		return policy.Decision{Action: policy.Deny, Rule: "no"}
	}
	return policy.Decision{Action: policy.Ask, Rule: "ask"}
}

func (gateOf) Approve(context.Context, Asking) (policy.Approval, error) {
	return policy.Approval{}, nil
}

// TestForbiddenNotifications checks that notifications with an unknown meaning are sent only if
// allowed without asking.
func TestForbiddenNotifications(t *testing.T) {
	g := newRig(t, "a", "b")
	s := g.session("s", able)
	for _, gate := range []Gate{nil, gateOf("a")} {
		g.router.Gate = gate
		g.router.Notified(s, "notifications/new", []byte(`{"k":1}`))
		g.router.Notified(s, "notifications/roots/list_changed", nil)
		for _, up := range g.ups {
			if gate == nil {
				want(t, up.name, []string{<-up.notice}, `notifications/new {"k":1}`)
			}
			want(t, up.name, []string{<-up.notice}, "notifications/roots/list_changed ")
		}
	}
}

// TestUpstreamThatDoesNotRead checks that a stuck upstream delays neither the client nor other
// upstreams.
func TestUpstreamThatDoesNotRead(t *testing.T) {
	g := newRig(t, "a", "b")
	s := g.session("s", able)
	g.ups["a"].notice = make(chan string)
	for range maxQueued {
		g.router.Notified(s, "notifications/new", nil)
	}
	for range maxQueued {
		<-g.ups["b"].notice
	}
	g.router.EndSession(s)
	g.router.Close() // drops the notifications still queued for a
}

func TestRequestCancelledByClient(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", `{}`)
	g.lists("a", wire.Prompts, "p")
	g.ups["a"].answer["prompts/get"] = func(ctx context.Context, _ wire.Call) (wire.Reply, error) {
		<-ctx.Done()
		return wire.Reply{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&wire.CancelledError{})
	got := g.router.Handle(ctx, Call{Method: "prompts/get", Origin: s, Params: []byte(`{"name":"a__p"}`)})
	if got.Error == nil {
		t.Errorf("got %s", got.Result)
	}
}
