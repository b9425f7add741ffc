package stateless_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
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

// TestEqualFilter checks that no subscription takes the place of a subscription with the same
// filter: another subscription is of no use, and messages may be missed in between.
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

// TestOneSubscription checks a server that ends the old subscription whenever another subscription
// begins. The server may have ended the old subscription first, so everything that relied on the old
// subscription counts as missed. A watcher that then watches again makes the server end the next
// subscription; this sequence comes to an end.
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
	r.server.EndSubscriptions() // no subscription takes over
	missed("since the last one has ended")
	for _, w := range watchers {
		mcptest.Receive(t, "the end of a watcher", w.ended)
	}
}

// TestSharedSubscription checks a server with which the end of a subscription also ends the
// notifications of the next subscription: the server continues to announce changes, and changes
// that may have been missed meanwhile are reported once. Tasks are watched on.
func TestSharedSubscription(t *testing.T) {
	r := newRig(t, "stdio", mcptest.ServerOptions{SharedSubscription: true})
	r.Listen(t.Context(), []byte(everything))
	id := r.makeTask(t)
	w := r.watch(t, id)
	mcptest.Receive(t, "the acknowledgement", w.acknowledged)
	all := []wire.Surface{wire.Tools, wire.Prompts, wire.Resources}
	// The server's behaviour is noticed after the handover of the first subscription.
	mcptest.Receive(t, "lists that may have changed", r.changed)
	mcptest.Receive(t, "word that the task may have changed", w.acknowledged)
	for i, uri := range []string{"f:1", "f:2", "f:3"} {
		if got := r.ask(t, "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri)); got != "{}" {
			t.Fatal(got)
		}
		if got := mcptest.Receive(t, "lists that may have changed", r.changed); !slices.Equal(got, all) {
			t.Errorf("%s: %v", uri, got)
		}
		for range i {
			mcptest.Receive(t, "a resource that may have changed", r.updated)
		}
		mcptest.Receive(t, "word that the task may have changed", w.acknowledged)
		r.awaitOne(t)
		from := r.server.Received.Len()
		r.server.Publish("notifications/tools/list_changed", fmt.Sprintf(`{"n":%d}`, i))
		if got := r.next(t); got != fmt.Sprintf(`notifications/tools/list_changed{"n":%d}`, i) {
			t.Errorf("%s: %s", uri, got)
		}
		r.server.Publish("notifications/resources/updated", fmt.Sprintf(`{"uri":%q}`, uri))
		if got := r.next(t); got != fmt.Sprintf(`notifications/resources/updated{"uri":%q}`, uri) {
			t.Errorf("%s: %s", uri, got)
		}
		if n := r.listens(from); n != 0 {
			t.Errorf("%s: %d more subscriptions", uri, n)
		}
	}
	select {
	case err := <-w.ended:
		t.Errorf("the task is no longer watched: %v", err)
	default:
	}
	if n := len(r.changed) + len(r.updated); n != 0 {
		t.Errorf("%d more lists and resources may have changed", n)
	}
}
