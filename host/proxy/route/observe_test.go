package route

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// observer records the observed calls.
type observer struct {
	off  bool
	seen []ObservedCall
}

func (o *observer) Observes() bool { return !o.off }

func (o *observer) Observe(call ObservedCall) { o.seen = append(o.seen, call) }

// TestObserver checks that the observer sees proxied calls with their answers, but no calls of
// scripts, and none if the observer does not observe.
func TestObserver(t *testing.T) {
	g := newRig(t, "a")
	g.lists("a", wire.Tools, "good", "bad")
	g.ups["a"].on("tools/call", `{"content":[]}`)
	o := &observer{}
	g.router.Observer = o
	s := g.session("s", `{}`)
	const params = `{"name":"a__good","arguments":{"x":1}}`
	if got := g.ask(s, "tools/call", params); got != `{"content":[]}` {
		t.Fatal(got)
	}
	g.ups["a"].on("tools/call", `{"code":-5,"message":"no"}`)
	g.ask(s, "tools/call", `{"name":"a__bad"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.router.CallTool(ctx, Call{Method: "tools/call", Origin: s, Params: []byte(params)})
	g.router.CallUpstream(t.Context(), s, ScriptCall{Server: "a", Tool: "good", Params: []byte(params)})
	g.ask(s, "tools/call", `{"name":"unknown"}`)
	o.off = true
	g.ask(s, "tools/call", params)
	if len(o.seen) != 3 {
		t.Fatalf("seen %+v", o.seen)
	}
	good, bad, gone := o.seen[0], o.seen[1], o.seen[2]
	if good.Origin.Session() != s || good.Server != "a" || good.Tool != "good" || string(good.Params) != `{"name":"good","arguments":{"x":1}}` ||
		string(good.Reply.Result) != `{"content":[]}` || good.Cancelled || good.Start.IsZero() {
		t.Errorf("good: %+v", good)
	}
	if bad.Tool != "bad" || !strings.Contains(string(bad.Reply.Error), "-5") || bad.Cancelled {
		t.Errorf("bad: %+v", bad)
	}
	if !gone.Cancelled {
		t.Errorf("cancelled: %+v", gone)
	}
}

// TestAnnounce checks that a log message of ours reaches the sessions that have asked for the level
// of the message.
func TestAnnounce(t *testing.T) {
	g := newRig(t, "a")
	x, y, z := g.session("x", `{}`), g.session("y", `{}`), g.session("z", `{}`)
	g.ask(x, "logging/setLevel", `{"level":"warning"}`)
	g.ask(y, "logging/setLevel", `{"level":"alert"}`)
	g.router.Announce("error", "ours", "disk \"full\"")
	want(t, "x", x.heard(), `notifications/message {"level":"error","logger":"ours","data":"disk \"full\""}`)
	want(t, "y", y.heard())
	want(t, "z, who has not asked", z.heard())
}

// idleObserver is an observer that observes no calls, or ignores them.
type idleObserver bool

func (n idleObserver) Observes() bool { return bool(n) }

func (idleObserver) Observe(ObservedCall) {}

// BenchmarkObserved is BenchmarkCallTool with an observer.
func BenchmarkObserved(b *testing.B) {
	for name, o := range map[string]Observer{"off": idleObserver(false), "on": idleObserver(true)} {
		b.Run(name, func(b *testing.B) {
			g := newRig(b, "a")
			g.lists("a", wire.Tools, "echo")
			g.shared.Set("a", instant{})
			g.router.Observer = o
			call := Call{Method: "tools/call", Origin: &fakeSession{}, Params: []byte(`{"name":"a__echo","arguments":{"text":"hello"},"_meta":{"progressToken":1}}`)}
			b.ReportAllocs()
			for b.Loop() {
				if r := g.router.Handle(b.Context(), call); r.Error != nil {
					b.Fatal(string(r.Error))
				}
			}
		})
	}
}
