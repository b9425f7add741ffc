package route

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

const (
	tasksDeclared = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	tasksOffered  = `{"protocolVersion":"2026-07-28","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	created       = `{"resultType":"task","taskId":"own","status":"working","createdAt":"2026-08-01T10:30:00Z","ttlMs":null,"pollIntervalMs":1,"x":1.0}`
)

// taskRig is eras with an upstream that has tasks.
func taskRig(t *testing.T, revision, capabilities string) (*rig, *fakeUpstream, *fakeSession) {
	g, up, _ := eras(t, revision, capabilities)
	up.server = tasksOffered
	s := g.session("two", capabilities)
	s.old = revision
	return g, up, s
}

// madeTask calls the tool and returns the id of the task.
func (g *rig) madeTask(s *fakeSession) string {
	g.t.Helper()
	reply := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}")
	id, ok := wire.GetString([]byte(reply), "taskId")
	if !ok || id == "own" {
		g.t.Fatal(reply)
	}
	if rest := strings.Replace(reply, id, "own", 1); rest != created {
		g.t.Errorf("created %s", reply)
	}
	return id
}

// TestTaskExtension checks that a client and an upstream with the extension reach each other's
// tasks, each with an own id.
func TestTaskExtension(t *testing.T) {
	g, up, s := taskRig(t, stateless, tasksDeclared)
	up.stateless("tools/call", created)
	up.stateless("tasks/get", `{"resultType":"task","taskId":"own","status":"input_required","inputRequests":{"k":{"method":"roots/list"}},"n":9007199254740993}`)
	up.stateless("tasks/update", `{"resultType":"complete"}`)
	up.stateless("tasks/cancel", `{"resultType":"complete"}`)
	id := g.madeTask(s)
	up.sent()
	for method, test := range map[string]struct{ more, want string }{
		"tasks/get":    {"", `{"resultType":"complete","taskId":"` + id + `","status":"input_required","inputRequests":{"k":{"method":"roots/list"}},"n":9007199254740993}`},
		"tasks/update": {`,"inputResponses":{"k":{"roots":[]}},"x":1.0`, `{"resultType":"complete"}`},
		"tasks/cancel": {"", `{"resultType":"complete"}`},
	} {
		const envelope = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","traceparent":"t"}`
		if got := g.ask(s, method, `{"taskId":"`+id+`"`+test.more+envelope+"}"); got != test.want {
			t.Errorf("%s: %s", method, got)
		}
		want(t, method, up.sent(), method+` {"taskId":"own"`+test.more+`,"_meta":{"traceparent":"t"}}`)
	}
	// Another session of the same principal, for example after a restart.
	same := &fakeSession{name: "two", params: s.params, old: stateless}
	if _, err := g.router.BeginSession(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	if got := g.ask(same, "tasks/cancel", `{"taskId":"`+id+`"}`); got != `{"resultType":"complete"}` {
		t.Error(got)
	}
	up.sent()
	other, without := g.session("other", tasksDeclared), g.session("two", `{"extensions":{}}`)
	other.old, without.old = stateless, stateless
	const unknown = `{"code":-32602,"message":"tasks/get: there is no such task"}`
	state, _ := wire.GetString([]byte(g.asked(s)), "requestState")
	for _, test := range []struct {
		who         *fakeSession
		params, say string
	}{
		{other, `{"taskId":"` + id + `"}`, unknown},
		{s, `{"taskId":"own"}`, unknown},
		{s, `{"taskId":"` + id[:len(id)-2] + `AA"}`, unknown},
		{s, `{"taskId":"` + state + `"}`, unknown},
		{s, `{"taskId":1}`, `{"code":-32602,"message":"tasks/get: params.taskId must be a string"}`},
		{without, `{"taskId":"` + id + `"}`, `{"code":-32021,"message":"tasks/get: the client does not declare the extension io.modelcontextprotocol/tasks","data":{"requiredCapabilities":` + tasksDeclared + `}}`},
	} {
		if got := g.ask(test.who, "tasks/get", test.params); got != test.say {
			t.Errorf("%s: %s", test.params, got)
		}
	}
	if all := up.sent(); slices.ContainsFunc(all, func(m string) bool { return strings.HasPrefix(m, "tasks/") }) {
		t.Errorf("sent %s", all)
	}
	if got := g.ask(s, "tasks/result", `{"taskId":"`+id+`"}`); got != `{"code":-32601,"message":"method not found: tasks/result"}` {
		t.Error(got)
	}
	// A state of a question is no id, and an id is no state.
	retry := "{" + requests["tools/call"] + `,"requestState":"` + id + `"}`
	if got := g.ask(s, "tools/call", retry); !strings.Contains(got, "requestState is not valid") {
		t.Error(got)
	}
}

// asked makes the upstream ask something once, and returns the reply.
func (g *rig) asked(s *fakeSession) string {
	g.ups["a"].stateless("tools/call", asking(`"a":`+roots, "s1"))
	return g.ask(s, "tools/call", "{"+requests["tools/call"]+"}")
}

// TestTaskOfOtherMethods checks that only tools/call can become a task, and a task with ambiguous
// names is refused.
func TestTaskOfOtherMethods(t *testing.T) {
	g, up, s := taskRig(t, stateless, tasksDeclared)
	for _, method := range []string{"prompts/get", "resources/read"} {
		up.stateless(method, created)
		if got := g.ask(s, method, "{"+requests[method]+"}"); got != `{"code":-32603,"message":"`+method+`: the server answered with a task, which it must not for this method"}` {
			t.Error(got)
		}
	}
	up.stateless("tools/call", created)
	id := g.madeTask(s)
	for _, bad := range []string{
		`{"taskId":"own","status":"completed","result":{"content":[],"Content":[]}}`,
		`{"taskId":"own","status":"completed","result":{},"Result":{}}`,
	} {
		up.stateless("tasks/get", bad)
		if got := g.ask(s, "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(got, "-32603") {
			t.Error(got)
		}
	}
}

// TestTasksWithoutExtension checks that requests about tasks are unknown if no upstream has tasks,
// and the extension is not offered to clients of the handshake era.
func TestTasksWithoutExtension(t *testing.T) {
	g, _, s := eras(t, stateless, tasksDeclared)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel", "subscriptions/listen"} {
		if got := g.ask(s, method, `{"taskId":"x"}`); got != `{"code":-32601,"message":"method not found: `+method+`"}` {
			t.Error(got)
		}
	}
	g, up, _ := eras(t, "2025-11-25", `{}`)
	up.server = `{"capabilities":{"extensions":{"x":{},"io.modelcontextprotocol/tasks":{}}}}`
	result, err := g.router.BeginSession(t.Context(), &fakeSession{name: "legacy"})
	if err != nil || strings.Contains(string(result.Capabilities), "/tasks") || !strings.Contains(string(result.Capabilities), `"extensions":{"x":{}}`) {
		t.Errorf("%s, %v", result.Capabilities, err)
	}
	if offer := g.router.Discover(nil).Capabilities; !strings.Contains(string(offer), `"io.modelcontextprotocol/tasks":{}`) {
		t.Errorf("%s", offer)
	}
}

// TestAwaitTask checks that callers that cannot have a task get the result of the task.
func TestAwaitTask(t *testing.T) {
	const complete = `{"resultType":"complete","taskId":"own","status":"completed","result":{"content":[],"isError":true}}`
	const ask = `{"taskId":"own","status":"input_required","pollIntervalMs":1,"inputRequests":{"a":` + form + `,"b":` + roots + `}}`
	const told = `tasks/get {"taskId":"own"}`
	for _, test := range []struct {
		name, revision, capabilities string
		polls                        []string
		want                         string
		sent                         []string // after the call
	}{
		{"legacy", "2025-11-25", allInputs, []string{`{"taskId":"own","status":"working"}`, complete}, `{"content":[],"isError":true}`, []string{told, told}},
		{"stateless", stateless, `{"extensions":{}}`, []string{complete}, `{"content":[],"isError":true}`, []string{told}},
		{"failed", "2025-11-25", `{}`, []string{`{"taskId":"own","status":"failed","error":{"code":-32603,"message":"m","data":1}}`}, `{"code":-32603,"message":"m","data":1}`, []string{told}},
		{"cancelled", "2025-11-25", `{}`, []string{`{"taskId":"own","status":"cancelled"}`}, errText(`upstream \"a\" has cancelled the task of this call`), []string{told}},
		{"completed with nothing", "2025-11-25", `{}`, []string{`{"taskId":"own","status":"completed"}`},
			errText(`upstream \"a\": the task of this call has status \"completed\", but no outcome of it`), []string{told}},
		{"ambiguous", "2025-11-25", `{}`, []string{`{"taskId":"own","status":"completed","result":{"content":[],"content":[1]}}`}, "ambiguous", []string{told}},
		{"lost", "2025-11-25", `{}`, []string{`{"code":-32602,"message":"gone"}`},
			errText(`upstream \"a\" does not find the task of this call: gone`), []string{told, `tasks/cancel {"taskId":"own"}`}},
		{"asks", "2025-11-25", allInputs, []string{ask, ask, complete}, `{"content":[],"isError":true}`,
			[]string{told, `tasks/update {"taskId":"own","inputResponses":{"a":{"client":"two","method":"elicitation/create"},"b":{"client":"two","method":"roots/list"}}}`, told, told}},
		{"cannot be asked", "2025-11-25", `{"roots":{}}`, []string{ask},
			errText(`upstream \"a\" asks the client something that it does not support (elicitation/create): method not found: the client does not support elicitation`),
			[]string{told, `tasks/cancel {"taskId":"own"}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, up, s := taskRig(t, test.revision, test.capabilities)
			up.stateless("tools/call", created)
			up.stateless("tasks/get", test.polls...)
			up.stateless("tasks/update", `{}`)
			up.stateless("tasks/cancel", `{}`)
			got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}")
			if got != test.want && (test.want != "ambiguous" || !strings.Contains(got, `"isError":true`) && !strings.Contains(got, "-32603")) {
				t.Errorf("got %s", got)
			}
			g.router.Close() // waits for the cancellation
			up.mu.Lock()
			for _, c := range up.calls[1:] {
				if !declares(c.Client, "extensions", "io.modelcontextprotocol/tasks") {
					t.Errorf("%s for %s", c.Method, c.Client)
				}
			}
			up.mu.Unlock()
			want(t, "sent", up.sent()[1:], test.sent...)
		})
	}
}

func errText(text string) string {
	return `{"content":[{"type":"text","text":"` + text + `"}],"isError":true}`
}

// TestAwaitCancelled checks that a task is cancelled together with the call, and the wait for a
// task that never ends is limited.
func TestAwaitCancelled(t *testing.T) {
	for _, bound := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g, up, s := taskRig(t, "2025-11-25", `{}`)
			up.stateless("tools/call", created)
			ctx, cancel := context.WithCancel(t.Context())
			polls := 0
			up.answer["tasks/get"] = func(context.Context, wire.Call) (wire.Reply, error) {
				if polls++; polls == 3 && !bound {
					cancel()
				}
				return wire.Reply{Result: []byte(`{"taskId":"own","status":"working","pollIntervalMs":1e9}`)}, nil
			}
			up.stateless("tasks/cancel", `{}`)
			reply := g.router.Handle(ctx, Call{Method: "tools/call", Origin: s, Params: []byte("{" + requests["tools/call"] + "}")})
			if bound && !strings.Contains(string(reply.Result), "its task did not end within 1h0m0s") {
				t.Errorf("%s %s", reply.Result, reply.Error)
			}
			synctest.Wait()
			if all := up.sent(); all[len(all)-1] != `tasks/cancel {"taskId":"own"}` {
				t.Errorf("sent %s", all)
			}
			cancel()
			g.router.Close()
		})
	}
}

// TestTaskRequired checks that we declare the extension for callers that cannot, but only if the
// upstream insists on the extension.
func TestTaskRequired(t *testing.T) {
	const refusal = `{"code":-32021,"message":"m","data":{"requiredCapabilities":` + tasksDeclared + `}}`
	for _, test := range []struct {
		revision, refusal, want string
		calls                   int
	}{
		{"2025-11-25", refusal, `{"content":[]}`, 2},
		{stateless, refusal, refusal, 1}, // the client can declare the extension
		{"2025-11-25", `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`, "does not offer", 1},
	} {
		g, up, s := taskRig(t, test.revision, `{}`)
		up.stateless("tools/call", test.refusal, created)
		up.stateless("tasks/get", `{"taskId":"own","status":"completed","result":{"content":[]}}`)
		if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}"); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s", test.revision, got)
		}
		up.mu.Lock()
		calls := 0
		for _, c := range up.calls {
			if c.Method != "tools/call" {
				continue
			}
			if calls++; (calls == 2) != declares(c.Client, "extensions", "io.modelcontextprotocol/tasks") {
				t.Errorf("call %d for %s", calls, c.Client)
			}
		}
		up.mu.Unlock()
		if calls != test.calls {
			t.Errorf("%s: %d calls", test.revision, calls)
		}
	}
	g, up, s := taskRig(t, stateless, tasksDeclared)
	up.stateless("tools/call", created)
	up.stateless("tasks/get", `{"taskId":"own","status":"completed","result":{"content":[],"n":1}}`)
	if got := g.router.CallUpstream(t.Context(), s, ScriptCall{Server: "a", Tool: "t", Params: []byte(`{}`)}); string(got.Result) != `{"content":[],"n":1}` {
		t.Errorf("a script got %s %s", got.Result, got.Error)
	}
}

// TestWatchTask checks that notifications about a task reach the sessions that watch the task, with
// the id known to each session, and watchers get the missed status after a gap.
func TestWatchTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, up, s := taskRig(t, stateless, tasksDeclared)
		up.stateless("tools/call", created)
		up.stateless("tasks/get", `{"resultType":"complete","taskId":"own","status":"completed","result":{}}`)
		broken := make(chan bool)
		up.answer["subscriptions/listen"] = func(ctx context.Context, call wire.Call) (wire.Reply, error) {
			call.Progress(nil)
			select {
			case <-broken:
				return wire.Reply{}, errDown
			case <-ctx.Done():
				return wire.Reply{}, context.Cause(ctx)
			}
		}
		a, b := g.madeTask(s), g.madeTask(s)
		other := g.session("other", tasksDeclared)
		if _, ok := g.router.WatchTask(t.Context(), other, a); ok {
			t.Error("another principal watches the task")
		}
		stopA, okA := g.router.WatchTask(t.Context(), s, a)
		stopB, okB := g.router.WatchTask(t.Context(), s, b)
		if !okA || !okB {
			t.Fatal("refused")
		}
		up.sent()
		g.router.OnNotification("a", wire.Inbound{Method: "notifications/tasks", Params: []byte(`{"taskId":"own","status":"working","x":1.0}`)})
		g.router.OnNotification("a", wire.Inbound{Method: "notifications/tasks", Params: []byte(`{"taskId":"other","status":"working"}`)})
		g.router.OnNotification("a", wire.Inbound{Method: "notifications/tasks", Params: []byte(`{"taskId":"own","status":"working","Status":"x"}`)})
		got := s.heard()
		slices.Sort(got)
		expected := []string{`notifications/tasks {"taskId":"` + a + `","status":"working","x":1.0}`, `notifications/tasks {"taskId":"` + b + `","status":"working","x":1.0}`}
		slices.Sort(expected)
		want(t, "told", got, expected...)
		want(t, "told the other", other.heard())
		stopA()
		broken <- true
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, "sent after the gap", up.sent(), `subscriptions/listen {"notifications":{"taskIds":["own"]}}`, `tasks/get {"taskId":"own"}`)
		want(t, "caught up", s.heard(), `notifications/tasks {"taskId":"`+b+`","status":"completed","result":{}}`)
		stopB()
		synctest.Wait()
		want(t, "sent after the end", up.sent())
		if len(g.router.watched) > 0 {
			t.Errorf("%v", g.router.watched)
		}
		up.stateless("subscriptions/listen", `{"code":-32603,"message":"no"}`)
		if _, ok := g.router.WatchTask(t.Context(), s, a); ok || len(g.router.watched) > 0 {
			t.Error("watched although the upstream refuses")
		}
		g.router.Close()
	})
}
