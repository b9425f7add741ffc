package stateless_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestRefusedResource checks that a refused resource takes no other resource and no list along:
// neither among simultaneous subscriptions, nor when everything is subscribed to anew.
func TestRefusedResource(t *testing.T) {
	var gone atomic.Bool
	refuses := func(uri string) bool {
		return strings.HasPrefix(uri, "bad:") || uri == "f:0" && gone.Load()
	}
	over(t, mcptest.ServerOptions{RefusesSubscription: refuses}, func(t *testing.T, r *rig) {
		gone.Store(false)
		r.Listen(t.Context(), []byte(everything))
		r.awaitOne(t)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if got := r.ask(t, "resources/subscribe", fmt.Sprintf(`{"uri":"f:%d"}`, i)); got != "{}" {
					t.Errorf("f:%d: %s", i, got)
				}
			})
		}
		for i := range 2 {
			all.Go(func() {
				if got := r.ask(t, "resources/subscribe", fmt.Sprintf(`{"uri":"bad:%d"}`, i)); !strings.Contains(got, fmt.Sprintf("no resource bad:%d", i)) {
					t.Errorf("bad:%d: %s", i, got)
				}
			})
		}
		all.Wait()
		r.awaitOne(t)
		gone.Store(true)
		r.server.EndSubscriptions()
		mcptest.Receive(t, "lists that may have changed", r.changed)
		mcptest.Receive(t, "lists that may have changed, now that they are listened to", r.changed)
		r.server.Publish("notifications/resources/updated", `{"uri":"f:7"}`)
		if got := r.next(t); got != `notifications/resources/updated{"uri":"f:7"}` {
			t.Error(got)
		}
		gone.Store(false)
		if got := r.ask(t, "resources/subscribe", `{"uri":"f:0"}`); got != "{}" {
			t.Errorf("a resource that exists again: %s", got)
		}
	})
}
