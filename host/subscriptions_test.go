package host

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestPolicyEndsSubscriptions checks that subscriptions in both eras end when a reload denies
// their resource, that the server is told when the last one ends, and that others go on.
func TestPolicyEndsSubscriptions(t *testing.T) {
	t.Parallel() // it mostly waits
	server := mcptest.NewServer(mcptest.ServerOptions{})
	cfg := testConfig(t, config.Upstream{
		Name: "raw", URL: listenHTTP(t, server, server.HTTP()), Transport: config.StreamableHTTP, Timeout: maxWait, MaxTimeout: maxWait,
		Restart: config.RestartAlways, Isolation: config.Shared, Start: config.Eager,
	})
	cfg.HTTP.Tokens = bearerTokens("token-of-a", "token-of-b")
	cfg.HTTP.Tokens[0].Name, cfg.HTTP.Tokens[1].Name = "a", "b"
	w := serveProxyOf(t, overHTTP, server.Received, cfg, Options{NoScripts: true})
	const updated = protocol.NotificationResourceUpdated
	a := w.join(t, "token-of-a")
	if got := a.ask("resources/subscribe", `{"uri":"raw://text"}`); !strings.Contains(got, `"result":{`) {
		t.Fatal(got)
	}
	b := &tokenClient{T: t, Client: eraPair(t, w, mcptest.EraModern, mcptest.ClientOptions{Header: map[string]string{"Authorization": "Bearer token-of-b"}}).Client}
	b.Start(`"s"`, "subscriptions/listen", mcptest.Everyone.Params(`{"notifications":{"resourceSubscriptions":["raw://text"]}}`))
	b.told(0, protocol.NotificationAcknowledged)
	touch := func(what string, toA, toB bool) {
		t.Helper()
		seenA, seenB := a.Log.Len(), b.Log.Len()
		if got := a.ask("tools/call", mcptest.ToolParams("touch", `{"uri":"raw://text"}`, "")); !strings.Contains(got, `"result"`) {
			t.Fatal(got)
		}
		for _, c := range []struct {
			*tokenClient
			seen int
			told bool
		}{{a, seenA, toA}, {b, seenB, toB}} {
			if c.told {
				c.tokenClient.told(c.seen, updated)
			}
		}
		if !toA {
			a.untold(seenA, updated)
		}
		if !toB {
			if _, err := b.Request(bounded(t), "1", "tools/list", mcptest.Everyone.Params("")); err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(b.Log.All()[seenB:], mcptest.Method(updated)) {
				t.Error("the client of the stateless era got an update")
			}
		}
		if t.Failed() {
			t.Fatal(what)
		}
	}
	deny := func(clients string) string {
		return "[[policy.rule]]\nname = \"not this\"\nresources = [\"raw://text\"]\naction = \"deny\"\n" + clients
	}
	touch("without a policy", true, true)
	repolicy(t, w.host, deny(`clients = ["c"]`))
	touch("others are denied", true, true)
	repolicy(t, w.host, deny(`clients = ["a"]`))
	touch("one is denied", false, true)
	seen := server.Received.Len()
	repolicy(t, w.host, deny(""))
	if _, _, err := server.Received.Find(bounded(t), "the end of the subscription", seen, mcptest.Method("resources/unsubscribe")); err != nil {
		t.Error(err)
	}
	touch("all are denied", false, false)
	if got := a.ask("resources/subscribe", `{"uri":"raw://text"}`); !strings.Contains(got, `(rule \"not this\")`) {
		t.Errorf("a new subscription: %s", got)
	}
	repolicy(t, w.host, deny(`clients = ["b"]`))
	if got := a.ask("resources/subscribe", `{"uri":"raw://text"}`); !strings.Contains(got, `"result":{`) {
		t.Errorf("allowed again: %s", got)
	}
	touch("allowed again", true, false)
}
