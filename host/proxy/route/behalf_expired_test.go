package route

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestExpiredWhileATaskIsAwaited checks that a server gets nothing but tasks/cancel for a call that
// waits for a task when the token of the client has expired, and the call does not count as a call
// that was not made.
func TestExpiredWhileATaskIsAwaited(t *testing.T) {
	const legacy = `{"task":{"taskId":"own","status":"working"}}`
	for _, test := range []struct {
		name, definition, made string
		at                     string // the request with which the token expires
		sent                   []string
	}{
		{"extension", "", created, "tasks/get", []string{`tasks/get {"taskId":"own"}`, `tasks/cancel {"taskId":"own"}`}},
		{"extension, at once", "", created, "tools/call", []string{`tasks/cancel {"taskId":"own"}`}},
		{"question", "", created, "asked", []string{`tasks/get {"taskId":"own"}`, `tasks/cancel {"taskId":"own"}`}},
		{"handshake era", required, legacy, "tools/call", []string{`tasks/cancel {"taskId":"own"}`}},
	} {
		for _, script := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				g, up, s := taskRig(t, "2025-11-25", allInputs)
				if test.definition != "" {
					g, up, s = eras(t, stateless, `{}`)
					g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{[]byte(test.definition)}, nil)
				}
				answer := func(method, raw string) {
					up.answer[method] = func(context.Context, wire.Call) (wire.Reply, error) {
						if test.at == method {
							s.expire()
						}
						return wire.Reply{Result: []byte(raw), Stateless: test.definition == ""}, nil
					}
				}
				answer("tools/call", test.made)
				answer("tasks/get", `{"taskId":"own","status":"working","pollIntervalMs":1}`)
				if test.at == "asked" {
					answer("tasks/get", `{"taskId":"own","status":"input_required","inputRequests":{"b":`+roots+`}}`)
					s.asked = func(context.Context, wire.Call) (wire.Reply, error) {
						s.expire()
						return reply(`{"roots":[]}`), nil
					}
				}
				var got wire.Reply
				if script {
					got = g.router.CallUpstream(t.Context(), s, ScriptCall{Server: "a", Tool: "t", Params: []byte(`{}`)})
				} else {
					got = g.router.Handle(t.Context(), Call{Method: "tools/call", Origin: s, Params: []byte("{" + requests["tools/call"] + "}")})
				}
				if text := string(got.Result); !strings.Contains(text, `the task of this call is not waited for: the token of its client is no longer valid`) || got.Denied != nil {
					t.Errorf("%s: %s %s, denied: %v", test.name, got.Result, got.Error, got.Denied)
				}
				synctest.Wait()
				want(t, test.name, up.sent()[1:], test.sent...)
				g.router.Close()
			})
		}
	}
}

// TestExpiredClientsAreSilent checks that tasks and watches of a client, which go on without
// requests, send nothing to servers when the token of the client has expired.
func TestExpiredClientsAreSilent(t *testing.T) {
	t.Run("requests about a task", func(t *testing.T) {
		g, up, s := taskRig(t, stateless, tasksDeclared)
		up.stateless("tools/call", created)
		id := g.madeTask(s)
		up.sent()
		s.expire()
		for _, method := range []string{"tasks/get", "tasks/update"} {
			if got := g.ask(s, method, `{"taskId":"`+id+`"}`); !strings.Contains(got, "the token of its client is no longer valid") {
				t.Error(got)
			}
		}
		want(t, "sent", up.sent())
	})
	t.Run("watched task", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, up, s := taskRig(t, stateless, tasksDeclared)
			up.stateless("tools/call", created)
			broken := make(chan bool)
			up.answer["subscriptions/listen"] = func(ctx context.Context, call wire.Call) (wire.Reply, error) {
				call.Progress(nil)
				select {
				case expires := <-broken:
					if expires {
						s.expire()
					}
					return wire.Reply{}, errDown
				case <-ctx.Done():
					return wire.Reply{}, context.Cause(ctx)
				}
			}
			stop, _ := g.router.WatchTask(t.Context(), s, g.madeTask(s))
			up.sent()
			broken <- false
			time.Sleep(time.Minute)
			synctest.Wait()
			if sent := up.sent(); len(sent) != 2 {
				t.Errorf("sent %s", sent)
			}
			broken <- true
			time.Sleep(time.Minute)
			synctest.Wait()
			want(t, "sent", up.sent())
			stop()
			g.router.Close()
		})
	})
	t.Run("status that was missed", func(t *testing.T) {
		g, up, s := taskRig(t, stateless, tasksDeclared)
		to, _ := g.router.to(s, "a")
		key := watchKey{to.key(), "own"}
		g.router.watched[key] = &taskWatch{cancel: func() {}, watchers: map[watcher]int{{s, "id"}: 1}}
		s.expire()
		g.router.catchUp(t.Context(), key, to)
		want(t, "sent", up.sent())
	})
	t.Run("watched task of the handshake era", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, up, s := bridgedRig(t, optional, takesAll)
			stop, _ := g.router.WatchTask(t.Context(), s, g.bridge(s))
			time.Sleep(time.Minute)
			synctest.Wait()
			if sent := up.sent(); len(sent) < 3 {
				t.Errorf("sent %s", sent)
			}
			s.expire()
			time.Sleep(time.Minute)
			synctest.Wait()
			want(t, "sent", up.sent())
			stop()
			g.router.Close()
		})
	})
	t.Run("subscription", func(t *testing.T) {
		g := newRig(t, "a")
		g.lists("a", wire.Resources, "x:1")
		s := g.session("s", `{}`)
		g.ask(s, "resources/subscribe", `{"uri":"x:1"}`)
		want(t, "sent", g.ups["a"].sent(), `resources/subscribe {"uri":"x:1"}`)
		to, _ := g.router.to(s, "a")
		g.router.resubscribe(to.key())
		want(t, "sent", g.ups["a"].sent(), `resources/subscribe {"uri":"x:1"}`)
		s.expire()
		g.router.resubscribe(to.key())
		want(t, "sent", g.ups["a"].sent())
	})
	t.Run("notification", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, "a")
			s := g.session("s", `{}`)
			for _, want := range []int{1, 0} {
				g.router.notifyUpstream(s, "a", "notifications/roots/list_changed", nil, nil)
				synctest.Wait()
				if n := len(g.ups["a"].notice); n != want {
					t.Errorf("%d notifications", n)
				}
				if want > 0 {
					<-g.ups["a"].notice
				}
				s.expire()
			}
			g.router.Close()
		})
	})
}
