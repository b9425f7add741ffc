package route

import (
	"context"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestRequestLevel checks that upstreams of the handshake era are told once the lowest level in the
// requests of the stateless era, and log messages reach the right request, which filters them.
func TestRequestLevel(t *testing.T) {
	g := newRig(t, "a")
	g.lists("a", wire.Tools, "t")
	s := &fakeSession{name: "s", params: `{"capabilities":{}}`, old: stateless}
	g.router.Begin(s)
	call := func(level string) {
		t.Helper()
		o := &statelessRequest{s.request("r"), `{"capabilities":{}}`, level}
		if r := g.router.Handle(t.Context(), Call{Method: "tools/call", Origin: o, Params: []byte(`{"name":"a__t"}`)}); r.Error != nil {
			t.Errorf("%s: %s", level, r.Error)
		}
	}
	told := func(levels ...string) {
		t.Helper()
		var expected []string
		for _, level := range levels {
			if level != "" {
				expected = append(expected, `logging/setLevel {"level":"`+level+`"}`)
			}
		}
		want(t, "a", g.ups["a"].sent(), append(expected, `tools/call {"name":"t"}`)...)
	}
	call("")
	told()
	call("warning")
	told("warning")
	call("error")
	told()
	call("debug")
	told("debug")
	o := &statelessRequest{s.request("r"), `{"capabilities":{}}`, "debug"}
	g.notice("a", "notifications/message", `{"level":"debug"}`, o)
	want(t, "s", s.heard(), `r: notifications/message {"level":"debug","logger":"a"}`)
	g.router.EndSession(s)
	g.router.background.Wait()
	want(t, "a, after the session", g.ups["a"].sent())
}

// starting is an upstream whose capabilities are known once a request has waited for the upstream.
type starting struct{ *fakeUpstream }

func (u starting) Ready(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.server = everything
	return u.err
}

// TestRequestLevelBeforeStart checks that an upstream that starts because of a request is told the
// level before the request, even if requests were answered in place of the upstream so far.
func TestRequestLevelBeforeStart(t *testing.T) {
	g := newRig(t, "a")
	g.lists("a", wire.Tools, "t")
	up := g.ups["a"]
	up.server = ""
	g.shared.Set("a", starting{up})
	s := &fakeSession{name: "s", params: `{"capabilities":{}}`, old: stateless}
	g.router.Begin(s)
	call := func() {
		t.Helper()
		o := &statelessRequest{s.request("r"), `{"capabilities":{}}`, "warning"}
		if r := g.router.Handle(t.Context(), Call{Method: "tools/call", Origin: o, Params: []byte(`{"name":"a__t"}`)}); r.Error != nil {
			t.Error(string(r.Error))
		}
	}
	const tell, use = `logging/setLevel {"level":"warning"}`, `tools/call {"name":"t"}`
	call()
	want(t, "it starts", up.sent(), tell, use)
	call()
	want(t, "it runs", up.sent(), use)
	g.router.Peer("a", nil).OnAsleep()
	g.router.with(s, func(c *client) { c.level = "" })
	delete(g.router.levels, connKey{server: "a"})
	call()
	want(t, "it was asleep", up.sent(), tell, tell, use)
	g.router.OnReady("a")
	want(t, "it is ready", up.sent(), tell)
	call()
	want(t, "it runs again", up.sent(), use)
}
