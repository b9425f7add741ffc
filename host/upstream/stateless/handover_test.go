package stateless_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// listens returns how often the server was asked to be listened to since from.
func (r *rig) listens(from int) (n int) {
	for _, e := range r.server.Received.All()[from:] {
		if e.Msg.Method == "subscriptions/listen" {
			n++
		}
	}
	return n
}

// TestEqualFilter checks that no subscription takes the place of one with the same filter:
// another one is of no use, and messages may be missed in between.
func TestEqualFilter(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		r.Listen(t.Context(), []byte(everything))
		id := r.makeTask(t)
		mcptest.Receive(t, "the acknowledgement of the first", r.watch(t, id).acknowledged)
		from := r.server.Received.Len()
		second := r.watch(t, id)
		mcptest.Receive(t, "the acknowledgement of the second", second.acknowledged)
		second.cancel(errLeft)
		mcptest.Receive(t, "the end of the second", second.ended)
		for range 2 {
			if got := r.ask(t, "resources/subscribe", `{"uri":"f:1"}`); got != "{}" {
				t.Error(got)
			}
		}
		if n := r.listens(from); n != 1 {
			t.Errorf("%d subscriptions, want one, for the resource", n)
		}
	})
}

// TestOneSubscription checks a server that ends the old subscription whenever another one
// takes its place. It may have ended it before, so what relied on it counts as missed. But
// whoever then watches again has it end the next one, and that comes to an end.
func TestOneSubscription(t *testing.T) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			timings := fast
			timings.Handover = time.Hour
			r := newRigWith(t, transport, mcptest.ServerOptions{OneSubscription: true}, timings)
			testOneSubscription(t, r)
		})
	}
}

func testOneSubscription(t *testing.T, r *rig) {
	r.Listen(t.Context(), []byte(everything))
	r.awaitOne(t)
	missed := func(after string) {
		t.Helper()
		if got := mcptest.Receive(t, "lists that may have changed "+after, r.changed); !slices.Equal(got, []wire.Surface{wire.Tools, wire.Prompts, wire.Resources}) {
			t.Errorf("%s: %v", after, got)
		}
	}
	ids := []string{r.makeTask(t), r.makeTask(t)}
	a := r.watch(t, ids[0])
	mcptest.Receive(t, "the acknowledgement of a", a.acknowledged)
	missed("since a is watched")
	b := r.watch(t, ids[1])
	mcptest.Receive(t, "the acknowledgement of b", b.acknowledged)
	missed("since b is watched")
	if err := mcptest.Receive(t, "the end of a", a.ended); err == nil || !strings.Contains(err.Error(), "the subscription to the server has ended") {
		t.Error(err)
	}
	ends := 0
	watchers := []*watched{r.watch(t, ids[0]), b}
	mcptest.Receive(t, "the acknowledgement of a, again", watchers[0].acknowledged)
	for i := range 10 {
		if got := r.ask(t, "resources/subscribe", fmt.Sprintf(`{"uri":"f:%d"}`, i)); got != "{}" {
			t.Error(got)
		}
		for j, w := range watchers {
			select {
			case <-w.ended:
				ends++
				watchers[j] = r.watch(t, ids[j])
				mcptest.Receive(t, "the acknowledgement of another watcher", watchers[j].acknowledged)
			default:
			}
		}
	}
	if ends > 0 || len(r.changed)+len(r.updated) > 0 {
		t.Errorf("%d watchers have ended, %d lists and %d resources may have changed, although the server ends each subscription", ends, len(r.changed), len(r.updated))
	}
	r.server.Publish("notifications/resources/updated", `{"uri":"f:9"}`)
	if got := r.next(t); got != `notifications/resources/updated{"uri":"f:9"}` {
		t.Error(got)
	}
	r.server.EndSubscriptions() // nothing takes its place
	missed("since the last one has ended")
	for _, w := range watchers {
		mcptest.Receive(t, "the end of a watcher", w.ended)
	}
}
