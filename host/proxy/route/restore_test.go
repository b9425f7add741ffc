package route

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// moved returns the state of a session for another process.
func moved(t *testing.T, r *Router, s Session) (k Kept, called policy.Counts) {
	t.Helper()
	k, called, ok := r.Keep(s)
	if !ok {
		t.Fatal("the session is not there")
	}
	raw, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	k = Kept{}
	if err := json.Unmarshal(raw, &k); err != nil {
		t.Fatal(err)
	}
	return k, called
}

func TestRestore(t *testing.T) {
	from := newRig(t, "a", "b")
	from.lists("b", wire.Resources, "f:1", "f:2", "f:3")
	x := from.session("x", `{}`)
	from.ask(x, "logging/setLevel", `{"level":"error"}`)
	for _, uri := range []string{"f:1", "f:2", "f:3"} {
		from.ask(x, "resources/subscribe", `{"uri":"`+uri+`"}`)
	}
	from.ask(x, "resources/unsubscribe", `{"uri":"f:2"}`)
	from.router.takeTask(x, taskKey{"a", "t1"})
	from.router.with(x, func(c *client) { c.called.Add("a", "tool"); c.called.Add("a", "tool") })
	k, called := moved(t, from.router, x)
	if len(k.Topics) != 2 || k.Level != "error" || called.Total != 2 {
		t.Fatalf("kept %+v, %+v", k, called)
	}

	to := newRig(t, "a", "b")
	y := &fakeSession{name: "y", params: x.params}
	to.ups["b"].on("resources/subscribe", `{}`)
	to.router.Restore(y, k, called)
	to.router.background.Wait()
	sent := to.ups["b"].sent()
	for _, expect := range []string{`logging/setLevel {"level":"error"}`, `resources/subscribe {"uri":"f:1"}`, `resources/subscribe {"uri":"f:3"}`} {
		if !slices.Contains(sent, expect) {
			t.Errorf("b was not sent %s, but %q", expect, sent)
		}
	}
	if len(sent) != 3 {
		t.Errorf("b was sent %q", sent)
	}
	heard := y.heard()
	for _, expect := range []string{`notifications/resources/updated {"uri":"f:1"}`, `notifications/resources/updated {"uri":"f:3"}`} {
		if !slices.Contains(heard, expect) {
			t.Errorf("the client has not heard %s, but %q", expect, heard)
		}
	}
	to.notice("b", "notifications/resources/updated", `{"uri":"f:3"}`)
	to.notice("b", "notifications/resources/updated", `{"uri":"f:2"}`)
	to.notice("b", "notifications/message", `{"level":"warning","data":1}`)
	to.notice("b", "notifications/message", `{"level":"error","data":2}`)
	heard = y.heard()
	if !slices.Contains(heard, `notifications/resources/updated {"uri":"f:3"}`) || !slices.Contains(heard, `notifications/message {"level":"error","data":2,"logger":"b"}`) {
		t.Errorf("heard %q", heard)
	}
	if slices.Contains(heard, `notifications/message {"level":"warning","data":1,"logger":"b"}`) {
		t.Errorf("heard %q", heard)
	}
	if s := to.router.taskSession("a", "t1"); s != y {
		t.Errorf("the task belongs to %v", s)
	}
	again, calledAgain := moved(t, to.router, y)
	one, _ := json.Marshal([]any{k, called})
	other, _ := json.Marshal([]any{again, calledAgain})
	if string(one) != string(other) {
		t.Errorf("kept again:\n%s\nnot\n%s", other, one)
	}
	to.router.EndSession(y)
	to.router.background.Wait()
	if len(to.router.topics) != 0 {
		t.Errorf("left over: %v", to.router.topics)
	}
}

// TestRestoreDenied checks that a subscription no longer permitted by policy is not restored.
func TestRestoreDenied(t *testing.T) {
	g := newRig(t, "b")
	y := &fakeSession{name: "y", params: `{}`}
	g.ups["b"].on("resources/subscribe", `{}`)
	g.router.Gate = &fakeGate{decision: policy.Decision{Action: policy.Deny, Rule: "never"}}
	g.router.Restore(y, Kept{Topics: []KeptTopic{{Server: "b", URI: "f:1"}, {Server: "gone", URI: "f:2"}}}, policy.Counts{})
	g.router.background.Wait()
	want(t, "b", g.ups["b"].sent())
	if k, _, _ := g.router.Keep(y); len(k.Topics) != 0 {
		t.Errorf("kept %v", k.Topics)
	}
}

// own is Upstreams with a connection for each session.
type own struct{ *Shared }

func (u own) For(s Session, server string) (Connection, bool) {
	c, ok := u.Shared.For(s, server)
	c.Own = s
	return c, ok
}

// TestRestoreOwn checks that the first call of a server that has lost the process of a session
// fails with ErrRenewed.
func TestRestoreOwn(t *testing.T) {
	from := newRig(t, "a")
	x := from.session("x", `{}`)
	from.router.Peer("a", x).OnReady()
	k, called := moved(t, from.router, x)
	want(t, "own", k.Own, "a")

	to := newRig(t, "a")
	to.router.Upstreams = own{to.shared}
	to.lists("a", wire.Tools, "t")
	y := &fakeSession{name: "y", params: x.params}
	to.router.Restore(y, k, called)
	to.router.background.Wait()
	const call = `{"name":"a__t"}`
	if got := to.ask(y, "tools/call", call); !strings.Contains(got, `was lost with the replica that had it`) {
		t.Error(got)
	}
	want(t, "a", to.ups["a"].sent())
	if got := to.ask(y, "tools/call", call); strings.Contains(got, "lost") {
		t.Error(got)
	}
	to.router.EndSession(y)
}

// TestRestoredTotal hands over a history with more calls than the history remembers: the other
// process goes on counting from their number.
func TestRestoredTotal(t *testing.T) {
	was := policy.Counts{
		Total: 1007, Full: true,
		Calls: []policy.Call{{Kind: policy.KindTool, Server: "a", Name: "t", Times: 5}, {Kind: policy.KindTool, Server: "b", Name: "u", Times: 2}},
	}
	raw, err := json.Marshal(was)
	if err != nil {
		t.Fatal(err)
	}
	var read policy.Counts
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	var h policy.History
	h.Restore(read)
	h.Add("a", "t")
	got := h.Counts()
	if got.Total != 1008 || !got.Full || len(got.Calls) != 2 || got.Calls[0].Times != 6 || got.Calls[1].Times != 2 {
		t.Errorf("%+v", got)
	}
}
