package stateless_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// watched is a call of subscriptions/listen for a task.
type watched struct {
	acknowledged chan string
	ended        chan error
	cancel       context.CancelCauseFunc
}

var errLeft = errors.New("left")

func (r *rig) watch(t *testing.T, id string) *watched {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := &watched{make(chan string, 1), make(chan error, 1), cancel}
	t.Cleanup(func() { cancel(nil) })
	go func() {
		reply, err := r.CallWithin(ctx, wire.Call{
			Method: "subscriptions/listen", Params: []byte(`{"notifications":{"taskIds":["` + id + `"]}}`),
			Progress: func(params []byte) { w.acknowledged <- string(params) },
		}, rpc.Limit{})
		if err == nil {
			err = wire.ParseError(reply.Error)
		}
		w.ended <- err
	}()
	return w
}

// makeTask calls the tool "task" for a client with the extension.
func (r *rig) makeTask(t *testing.T) string {
	t.Helper()
	reply, err := r.CallWithin(t.Context(), wire.Call{
		Method: "tools/call", Params: []byte(`{"name":"task"}`), Client: []byte(`{"capabilities":{"extensions":{"` + mcptest.TaskExtension + `":{}}}}`),
	}, rpc.Limit{})
	id, ok := wire.GetString(reply.Result, "taskId")
	if err != nil || !ok {
		t.Fatalf("%s %s, %v", reply.Result, reply.Error, err)
	}
	return id
}

// TestWatch checks that a task is listened to while a call of the router lasts, together
// with everything else, and that the call ends when notifications may have been missed.
func TestWatch(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		r.Listen(t.Context(), []byte(everything))
		a, b := r.makeTask(t), r.makeTask(t)
		first := r.watch(t, a)
		if got := mcptest.Receive(t, "the acknowledgement of the first", first.acknowledged); got != `{"notifications":{"taskIds":["`+a+`"]}}` {
			t.Error(got)
		}
		second, third := r.watch(t, b), r.watch(t, b)
		mcptest.Receive(t, "the acknowledgement of the second", second.acknowledged)
		mcptest.Receive(t, "the acknowledgement of the third", third.acknowledged)
		r.server.SetTask(a, `"status":"completed","result":{"n":1.0}`)
		if got := r.next(t); !strings.HasPrefix(got, `notifications/tasks{"taskId":"`+a+`","status":"completed","result":{"n":1.0},`) || strings.Contains(got, "subscriptionId") {
			t.Error(got)
		}
		from := r.server.Received.Len()
		first.cancel(errLeft)
		if err := mcptest.Receive(t, "the end of the first", first.ended); !errors.Is(err, errLeft) {
			t.Error(err)
		}
		e, _, err := r.server.Received.Find(mcptest.Bounded(t), "listen", from, mcptest.Method("subscriptions/listen"))
		if err != nil || !strings.Contains(string(e.Raw), `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"taskIds":["`+b+`"]`) {
			t.Errorf("%s, %v", e.Raw, err)
		}
		if client, _ := wire.Get(e.Msg.Params, "_meta", "io.modelcontextprotocol/clientCapabilities"); string(client) != `{"extensions":{"`+mcptest.TaskExtension+`":{}}}` {
			t.Errorf("declared %s", client)
		}
		r.ask(t, "resources/subscribe", `{"uri":"f:1"}`) // after the answer, a single subscription is open
		second.cancel(errLeft)
		mcptest.Receive(t, "the end of the second", second.ended)
		r.server.SetTask(b, `"status":"cancelled"`)
		if got := r.next(t); !strings.Contains(got, `"taskId":"`+b+`","status":"cancelled"`) { // third still watches
			t.Error(got)
		}
		// If the server answers a subscription that we have ended, the next subscription begins
		// after the end of the current subscription, and third is told again instead of ending.
		r.awaitOne(t)
		r.server.EndSubscriptions()
		if err := mcptest.Receive(t, "the end of the third", third.ended); err == nil || !strings.Contains(err.Error(), "the subscription to the server has ended") {
			t.Error(err)
		}
	})
}

// TestWatchNothing checks that only the router can listen with a call.
func TestWatchNothing(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		for _, params := range []string{`{}`, `{"notifications":{"toolsListChanged":true}}`, `{"notifications":{"taskIds":["a"]}}`} {
			if got := r.ask(t, "subscriptions/listen", params); !strings.Contains(got, "-32601") {
				t.Error(got)
			}
		}
		if slices.ContainsFunc(r.server.Received.All(), func(e mcptest.Entry) bool { return e.Msg.Method == "subscriptions/listen" }) {
			t.Error("sent to the server")
		}
	})
}
