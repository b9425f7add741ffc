package route

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func TestSubscriptions(t *testing.T) {
	g := newRig(t, "a", "b")
	g.lists("b", wire.Resources, "f:///d")
	x, y := g.session("x", `{}`), g.session("y", `{}`)
	const sub, unsub = "resources/subscribe", "resources/unsubscribe"
	const uri = `{"uri":"f:///d"}`
	if got := g.ask(x, sub, `{"uri":"f:///d","_meta":{"k":1}}`); got != `{"server":"b","method":"resources/subscribe","params":{"uri":"f:///d","_meta":{"k":1}}}` {
		t.Errorf("got %s", got)
	}
	g.ask(y, sub, uri)
	g.ups["b"].sent()
	update := func(uri string) {
		g.notice("b", "notifications/resources/updated", `{"uri":"`+uri+`"}`, x.request("1"))
	}
	update("f:///d")
	update("f:///d/part")
	update("f:///dd")
	for _, s := range []*fakeSession{x, y} {
		want(t, s.name, s.heard(), `notifications/resources/updated {"uri":"f:///d"}`, `notifications/resources/updated {"uri":"f:///d/part"}`)
	}
	g.notice("a", "notifications/resources/updated", uri)
	want(t, "an update of another upstream", x.heard())

	if got := g.ask(y, unsub, uri); got != `{}` {
		t.Errorf("not the last: %s", got)
	}
	if got := g.ask(y, unsub, uri); got != `{}` {
		t.Errorf("not subscribed: %s", got)
	}
	want(t, "b, while x is subscribed", g.ups["b"].sent())
	g.router.OnReady("b")
	want(t, "b, ready for the first time", g.ups["b"].sent())
	g.router.OnReady("b")
	want(t, "b, started again", g.ups["b"].sent(), sub+" "+uri)
	want(t, "x, who may have missed an update", x.heard(), `notifications/resources/updated {"uri":"f:///d"}`)
	update("f:///d")
	want(t, "y", y.heard())
	if got := g.ask(x, unsub, `{"uri":"f:///d","_meta":{}}`); !strings.Contains(got, `"server":"b"`) {
		t.Errorf("the last: %s", got)
	}
	want(t, "b", g.ups["b"].sent(), unsub+` {"uri":"f:///d","_meta":{}}`)
	g.router.OnReady("b")
	want(t, "b, started again", g.ups["b"].sent())
	if len(g.router.topics) != 0 || len(g.router.subscribing.locks) != 0 {
		t.Errorf("left over: %v, %v", g.router.topics, g.router.subscribing.locks)
	}
}

func TestSubscriptionOfASessionThatLeaves(t *testing.T) {
	g := newRig(t, "a")
	g.lists("a", wire.Resources, "f:1", "f:2")
	x, y := g.session("x", `{}`), g.session("y", `{}`)
	g.ask(x, "resources/subscribe", `{"uri":"f:1"}`)
	g.ask(x, "resources/subscribe", `{"uri":"f:2"}`)
	g.ask(y, "resources/subscribe", `{"uri":"f:2"}`)
	g.ups["a"].sent()
	g.router.EndSession(x)
	g.router.EndSession(x) // twice is once
	g.router.background.Wait()
	want(t, "a", g.ups["a"].sent(), `resources/unsubscribe {"uri":"f:1"}`)
	g.notice("a", "notifications/resources/updated", `{"uri":"f:2"}`)
	want(t, "x", x.heard())
	want(t, "y", y.heard(), `notifications/resources/updated {"uri":"f:2"}`)
}

func TestSubscriptionThatFails(t *testing.T) {
	g := newRig(t, "a", "b")
	x, y := g.session("x", `{}`), g.session("y", `{}`)
	g.ups["a"].on("resources/subscribe", `{"code":-9,"message":"no"}`)
	if got := g.ask(x, "resources/subscribe", `{"uri":"f:1"}`); !strings.Contains(got, `"server":"b"`) {
		t.Errorf("the one that takes it: %s", got)
	}
	g.notice("a", "notifications/resources/updated", `{"uri":"f:1"}`)
	want(t, "x", x.heard())
	g.notice("b", "notifications/resources/updated", `{"uri":"f:1"}`)
	want(t, "x", x.heard(), `notifications/resources/updated {"uri":"f:1"}`)
	g.router.EndSession(y)
	g.notice("b", "notifications/resources/updated", `{"uri":"f:9"}`)
	want(t, "the only session", x.heard(), `notifications/resources/updated {"uri":"f:9"}`)
}

func TestTooManySubscriptions(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", `{}`)
	for i := range maxSubscriptions {
		g.ask(s, "resources/subscribe", fmt.Sprintf(`{"uri":"f:%d"}`, i))
	}
	if got := g.ask(s, "resources/subscribe", `{"uri":"f:1"}`); strings.Contains(got, "code") {
		t.Errorf("once more: %s", got)
	}
	if got := g.ask(s, "resources/subscribe", `{"uri":"f:x"}`); !strings.Contains(got, "unsubscribe from some") {
		t.Errorf("one too many: %s", got)
	}
	if got := g.ask(s, "resources/subscribe", `{"uri":"`+strings.Repeat("x", maxSubscribed+1)+`"}`); !strings.Contains(got, "longer than") {
		t.Errorf("a large one: %s", got)
	}
}

// TestUnsubscribeAndSubscribeAtOnce checks that the upstream is left with the right subscription
// when two sessions subscribe and unsubscribe at the same time.
func TestUnsubscribeAndSubscribeAtOnce(t *testing.T) {
	g := newRig(t, "a")
	x, y := g.session("x", `{}`), g.session("y", `{}`)
	var mu sync.Mutex
	subscribed := false
	for method, value := range map[string]bool{"resources/subscribe": true, "resources/unsubscribe": false} {
		g.ups["a"].answer[method] = func(context.Context, wire.Call) (wire.Reply, error) {
			mu.Lock()
			defer mu.Unlock()
			subscribed = value
			return empty(), nil
		}
	}
	for range 200 {
		g.ask(x, "resources/subscribe", `{"uri":"f:1"}`)
		var both sync.WaitGroup
		both.Go(func() { g.ask(x, "resources/unsubscribe", `{"uri":"f:1"}`) })
		both.Go(func() { g.ask(y, "resources/subscribe", `{"uri":"f:1"}`) })
		both.Wait()
		if !subscribed {
			t.Fatal("y is subscribed, but the upstream has no subscription")
		}
		g.ask(y, "resources/unsubscribe", `{"uri":"f:1"}`)
		if subscribed {
			t.Fatal("nobody is subscribed, but the upstream has a subscription")
		}
	}
}

// TestSubscriptionsThatPolicyEnds checks which subscriptions go on under another policy, that
// nothing counts again, no person is asked again, and the upstream is told of the end of the last
// subscription.
func TestSubscriptionsThatPolicyEnds(t *testing.T) {
	const update = `notifications/resources/updated {"uri":"f:1"}`
	allow, deny := policy.Decision{Action: policy.Allow}, policy.Decision{Action: policy.Deny, Rule: "never"}
	ask, other := policy.Decision{Action: policy.Ask, Rule: "asks"}, policy.Decision{Action: policy.Ask, Rule: "other"}
	g := newRig(t, "a")
	g.lists("a", wire.Resources, "f:1")
	asked := 0
	gate := &fakeGate{inactive: true, of: map[string]policy.Decision{}}
	gate.approve = func() error {
		asked++
		g.router.Recheck() // a subscription without a decision goes on
		return nil
	}
	g.router.Gate = gate
	x, y := g.session("x", `{}`), g.session("y", `{}`)
	subscribe := func(s *fakeSession) {
		t.Helper()
		if got := g.ask(s, "resources/subscribe", `{"uri":"f:1"}`); !strings.Contains(got, `"server":"a"`) {
			t.Fatalf("subscribe: %s", got)
		}
		g.ups["a"].sent()
	}
	recheck := func(what string, of map[string]policy.Decision, updated ...*fakeSession) {
		t.Helper()
		gate.of, gate.decided = of, nil
		g.router.Recheck()
		for _, r := range gate.decided {
			if r.Commit {
				t.Errorf("%s: it counts again", what)
			}
		}
		g.notice("a", "notifications/resources/updated", `{"uri":"f:1"}`)
		for _, s := range []*fakeSession{x, y} {
			var heard []string
			for _, u := range updated {
				if u == s {
					heard = append(heard, update)
				}
			}
			want(t, what+": "+s.name, s.heard(), heard...)
		}
	}
	subscribe(x) // before a policy exists
	gate.inactive = false
	gate.of["y"] = ask
	subscribe(y)
	recheck("allowed", map[string]policy.Decision{"x": allow, "y": ask}, x, y)
	part := func(of map[string]policy.Decision) {
		gate.of = of
		g.notice("a", "notifications/resources/updated", `{"uri":"f:1/part"}`)
	}
	part(map[string]policy.Decision{"x": allow, "y": ask, "y f:1/part": allow})
	part(map[string]policy.Decision{"x": allow, "x f:1/part": deny, "y": ask})
	const updatedPart = `notifications/resources/updated {"uri":"f:1/part"}`
	want(t, "x, of a part", x.heard(), updatedPart)
	want(t, "y, of a part", y.heard(), updatedPart)
	recheck("one is denied", map[string]policy.Decision{"x": deny, "y": ask}, y)
	g.router.background.Wait()
	want(t, "while y is subscribed", g.ups["a"].sent())
	recheck("another rule asks", map[string]policy.Decision{"x": allow, "y": other})
	g.router.background.Wait()
	want(t, "the last", g.ups["a"].sent(), `resources/unsubscribe {"uri":"f:1"}`)
	if asked != 1 {
		t.Errorf("somebody was asked %d times", asked)
	}
	gate.inactive = true
	subscribe(x)
	recheck("no policy", map[string]policy.Decision{"x": deny}, x)
	gate.inactive = false
	recheck("denied by a policy that is new", map[string]policy.Decision{"x": deny})
	g.router.background.Wait()
	g.ups["a"].sent()

	// The policy changes between the request and the answer.
	g.ups["a"].answer["resources/subscribe"] = func(context.Context, wire.Call) (wire.Reply, error) {
		gate.of["x"] = deny
		g.router.Recheck()
		return empty(), nil
	}
	gate.of["x"] = allow
	g.ask(x, "resources/subscribe", `{"uri":"f:1"}`)
	g.router.background.Wait()
	want(t, "denied in between", g.ups["a"].sent(), `resources/subscribe {"uri":"f:1"}`, `resources/unsubscribe {"uri":"f:1"}`)
	g.notice("a", "notifications/resources/updated", `{"uri":"f:1"}`)
	want(t, "denied in between", x.heard())
	if len(g.router.topics) != 0 {
		t.Errorf("left over: %v", g.router.topics)
	}

	// Nor does the only session get updates without a subscription.
	g.router.EndSession(y)
	recheck("the only session", map[string]policy.Decision{"x": deny})
	recheck("the only session, asked for", map[string]policy.Decision{"x": ask})
	recheck("the only session, allowed", map[string]policy.Decision{"x": allow}, x)
}
