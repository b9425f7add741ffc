package route

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

const able = `{"sampling":{},"roots":{},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}}}`

// TestAttribution checks which session gets a request or a notification of an upstream,
// depending on the calls in flight.
func TestAttribution(t *testing.T) {
	const refused = `{"code":-32603,"message":"roots/list refused: several clients share upstream \"a\", and which one this is for is not known ` +
		`(set isolation = \"session\" for the upstream)"}`
	const notice = "notifications/message {\"data\":1,\"logger\":\"a\"}"
	for _, tt := range []struct {
		name     string
		sessions string // the existing sessions
		owners   string // of calls in flight, oldest first: session and id
		asked    string // "" for refused
		x, y     string // the heard messages
	}{
		{"one call of one session", "x", "x1", "x", "x1: " + notice, ""},
		{"exactly one call", "xy", "y1", "y", "", "y1: " + notice},
		{"several calls of one session", "xy", "x1 x2", "x", "x2: " + notice, ""},
		{"calls of several", "xy", "x1 y1 x2", "", "", ""},
		{"nothing in flight, one session", "x", "", "x", notice, ""},
		{"nothing in flight, several", "xy", "", "", notice, notice},
	} {
		g := newRig(t, "a")
		byName := map[byte]*fakeSession{}
		for _, name := range tt.sessions {
			byName[byte(name)] = g.session(string(name), able)
		}
		var in []any
		for _, id := range strings.Fields(tt.owners) {
			in = append(in, byName[id[0]].request(id))
		}
		got := g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Owners: owners(in...)})
		if want := `{"client":"` + tt.asked + `","method":"roots/list"}`; string(got.Result) != want && tt.asked != "" || tt.asked == "" && string(got.Error) != refused {
			t.Errorf("%s: %s%s", tt.name, got.Result, got.Error)
		}
		g.router.OnNotification("a", wire.Inbound{Method: "notifications/message", Params: []byte(`{"data":1}`), Owners: owners(in...)})
		for name, heard := range map[byte]string{'x': tt.x, 'y': tt.y} {
			if s := byName[name]; s != nil && strings.Join(s.heard(), "|") != heard {
				t.Errorf("%s: %c did not hear %q", tt.name, name, heard)
			}
		}
	}
}

func TestNoClientToAsk(t *testing.T) {
	g := newRig(t, "a")
	got := g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Owners: owners()})
	if want := `{"code":-32603,"message":"roots/list refused: no client is connected"}`; string(got.Error) != want {
		t.Errorf("got %s%s", got.Result, got.Error)
	}
}

func TestClientCapabilities(t *testing.T) {
	const unsupported = `{"code":-32601,"message":"method not found: the client does not support `
	const mode = `{"code":-32602,"message":"elicitation/create: the client does not support mode `
	for _, tt := range []struct{ capabilities, method, params, want string }{
		{`{}`, "sampling/createMessage", `{}`, unsupported + `sampling"}`},
		{`{}`, "roots/list", `{}`, unsupported + `roots"}`},
		{`{}`, "elicitation/create", `{}`, unsupported + `elicitation"}`},
		{`{}`, "tasks/list", `{}`, unsupported + `tasks"}`},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, mode + `\"url\""}`},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{}`, mode + `\"form\""}`},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"form"}`, mode + `\"form\""}`},
		{`{"elicitation":{}}`, "elicitation/create", `{}`, ""},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"form"}`, ""},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"url"}`, ""},
		{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, ""},
		{`{}`, "x/new", `{}`, ""},
	} {
		g := newRig(t, "a")
		s := g.session("s", tt.capabilities)
		got := g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: tt.method, Params: []byte(tt.params), Owners: owners(s.request("1"))})
		if tt.want == "" && got.Result == nil || string(got.Error) != tt.want {
			t.Errorf("%s with %s: %s%s", tt.method, tt.capabilities, got.Result, got.Error)
		}
	}
}

func TestClientAnswersPassVerbatim(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", able)
	const params = `{"messages":[ ],"_meta":{"k":1e400}}`
	for _, raw := range []string{`{"role":"x","_meta":{}}`, `{"code":-1,"message":"user said no","data":[1]}`} {
		s.asked = func(_ context.Context, call wire.Call) (wire.Reply, error) {
			if string(call.Params) != params || call.Progress != nil {
				t.Errorf("asked with %s", call.Params)
			}
			return reply(raw), nil
		}
		got := g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "sampling/createMessage", Params: []byte(params), Owners: owners(s)})
		if string(got.Result)+string(got.Error) != raw {
			t.Errorf("got %s%s", got.Result, got.Error)
		}
	}
}

func TestProgressOfAClient(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", able)
	s.asked = func(_ context.Context, call wire.Call) (wire.Reply, error) {
		call.Progress([]byte(`{"progressToken":17,"progress":1,"x":2}`))
		call.Progress([]byte(`{"progressToken":17,"progress":2}`))
		return reply(`{}`), nil
	}
	m := wire.Inbound{Method: "sampling/createMessage", Params: []byte(`{"_meta":{"progressToken":"theirs"}}`), Owners: owners(s)}
	g.router.OnRequest(t.Context(), "a", m)
	if n := len(g.ups["a"].notice); n != 2 { // the whole progress before the answer
		t.Fatalf("%d notifications", n)
	}
	for _, want := range []string{`{"progressToken":"theirs","progress":1,"x":2}`, `{"progressToken":"theirs","progress":2}`} {
		if got := <-g.ups["a"].notice; got != "notifications/progress "+want {
			t.Errorf("got %s", got)
		}
	}
}

func TestUpstreamCancelsItsRequest(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", able)
	asked := make(chan struct{})
	var cause error
	s.asked = func(ctx context.Context, _ wire.Call) (wire.Reply, error) {
		close(asked)
		<-ctx.Done()
		cause = context.Cause(ctx)
		return wire.Reply{}, cause
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := &wire.CancelledError{Params: []byte(`{"requestId":5}`)}
	go func() {
		<-asked
		cancel(why)
	}()
	g.router.OnRequest(ctx, "a", wire.Inbound{Method: "roots/list", Owners: owners(s)})
	if !errors.Is(cause, why) {
		t.Errorf("cause %v", cause)
	}
}

func TestClientThatIsGone(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", able)
	s.asked = func(context.Context, wire.Call) (wire.Reply, error) { return wire.Reply{}, wire.ErrClosed }
	got := g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Owners: owners(s)})
	if want := `{"code":-32603,"message":"roots/list: no answer of the client: connection closed"}`; string(got.Error) != want {
		t.Errorf("got %s%s", got.Result, got.Error)
	}
}

// private are Upstreams, each of a single session.
type private struct{ up map[Session]Upstream }

func (p private) For(s Session, _ string) (Connection, bool) {
	up, ok := p.up[s]
	return Connection{up, s}, ok
}

// TestUpstreamOfOneSession checks that messages of a session's own process go to the session,
// whatever is in flight.
func TestUpstreamOfOneSession(t *testing.T) {
	g := newRig(t, "a")
	x, y := g.session("x", able), g.session("y", able)
	upX, upY := g.ups["a"], newRig(t, "a").ups["a"]
	g.router.Upstreams = private{map[Session]Upstream{x: upX, y: upY}}
	peer := g.router.Peer("a", y)
	if got := peer.OnRequest(t.Context(), wire.Inbound{Method: "roots/list", Owners: owners()}); string(got.Result) != `{"client":"y","method":"roots/list"}` {
		t.Errorf("asked %s%s", got.Result, got.Error)
	}
	g.ask(x, "resources/subscribe", `{"uri":"f:1"}`)
	g.ask(y, "resources/subscribe", `{"uri":"f:1"}`)
	g.ask(y, "logging/setLevel", `{"level":"debug"}`)
	want(t, "asked of x's", upX.sent(), `resources/subscribe {"uri":"f:1"}`)
	peer.OnReady() // the start for which all calls above have waited
	peer.OnReady()
	want(t, "asked of y's", upY.sent(), `resources/subscribe {"uri":"f:1"}`, `logging/setLevel {"level":"debug"}`,
		`logging/setLevel {"level":"debug"}`, `resources/subscribe {"uri":"f:1"}`)
	want(t, "y, who may have missed an update", y.heard(), `notifications/resources/updated {"uri":"f:1"}`)
	for _, method := range []string{"notifications/resources/updated", "notifications/message", "notifications/x"} {
		peer.OnNotification(wire.Inbound{Method: method, Params: []byte(`{"uri":"f:1"}`), Owners: owners()})
	}
	want(t, "x", x.heard())
	want(t, "y", y.heard(), `notifications/resources/updated {"uri":"f:1"}`,
		`notifications/message {"uri":"f:1","logger":"a"}`, `notifications/x {"uri":"f:1"}`)
	g.ask(x, "resources/unsubscribe", `{"uri":"f:1"}`)
	want(t, "asked of x's", upX.sent(), `resources/unsubscribe {"uri":"f:1"}`)
	want(t, "asked of y's", upY.sent())
}
