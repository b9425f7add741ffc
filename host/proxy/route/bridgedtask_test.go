package route

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

const (
	toolTasksOffered = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}}`
	optional         = `{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`
	takesAll         = `{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{},"roots":{}}`
	related          = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own"}}`
	legacyTask       = `"taskId":"own","status":%q,"createdAt":"c","lastUpdatedAt":"l","ttl":9007199254740993,"pollInterval":5,"x":1.0`
	bridgedAs        = `"createdAt":"c","lastUpdatedAt":"l","ttlMs":9007199254740993,"pollIntervalMs":5,"x":1.0`
)

// bridgedRig has an upstream of the handshake era with a tool callable as a task, and a
// client of the stateless era.
func bridgedRig(t *testing.T, definition, capabilities string) (*rig, *fakeUpstream, *fakeSession) {
	g, up, _ := eras(t, stateless, capabilities)
	up.server = toolTasksOffered
	g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{[]byte(definition)}, nil)
	up.on("tools/call", fmt.Sprintf(`{"task":{%s},"_meta":{"n":1.0,"io.modelcontextprotocol/related-task":{"taskId":"own"}}}`, fmt.Sprintf(legacyTask, "working")))
	up.isNow("working")
	s := &fakeSession{name: "two", params: `{"capabilities":` + capabilities + `}`, old: stateless}
	g.router.Begin(s)
	return g, up, s
}

// isNow sets the status of the task.
func (u *fakeUpstream) isNow(status string) {
	u.on("tasks/get", "{"+fmt.Sprintf(legacyTask, status)+"}")
}

// bridge calls the tool and returns the id of the task.
func (g *rig) bridge(s *fakeSession) string {
	g.t.Helper()
	reply := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}")
	id, _ := wire.GetString([]byte(reply), "taskId")
	if want := `{"resultType":"task","taskId":"` + id + `","status":"working",` + bridgedAs + `,"_meta":{"n":1.0}}`; reply != want || len(id) < 20 {
		g.t.Fatalf("created %s, want %s", reply, want)
	}
	return id
}

// TestBridgedTask checks that a task of the handshake era is a task of the extension for a client
// with the extension: each status, the outcome, and the end.
func TestBridgedTask(t *testing.T) {
	for _, definition := range []string{optional, required} {
		g, up, s := bridgedRig(t, definition, takesAll)
		id := g.bridge(s)
		want(t, "sent", up.sent(), `tools/call {"name":"t","arguments":{"n":1},"task":{}}`)
		about := `{"taskId":"` + id + `"}`
		for _, test := range []struct{ status, result, want string }{
			{"working", "", `"status":"working"`},
			{"completed", `{"content":[],"isError":true,"n":1.0,"resultType":"input_required",` + related + `}`, `"status":"completed","result":{"content":[],"isError":true,"n":1.0}`},
			{"failed", `{"content":[],"isError":true,"_meta":{"k":1}}`, `"status":"completed","result":{"content":[],"isError":true,"_meta":{"k":1}}`},
			{"failed", `{"code":-32603,"message":"m","data":{"x":1.0}}`, `"status":"failed","error":{"code":-32603,"message":"m","data":{"x":1.0}}`},
			{"failed", `{"code":-32042,"message":"m"}`, `"status":"failed","error":{"code":-32603,"message":"m"}`},
			{"cancelled", "", ""},
		} {
			up.isNow(test.status)
			up.on("tasks/result", test.result)
			got := g.ask(s, "tasks/get", about)
			expected := `{"resultType":"complete","taskId":"` + id + `","status":"cancelled",` + bridgedAs + "}"
			if test.want != "" {
				expected = `{"resultType":"complete","taskId":"` + id + `",` + bridgedAs + "," + test.want + "}"
			}
			if got != expected {
				t.Errorf("%s:\ngot  %s\nwant %s", test.status, got, expected)
			}
			sent := []string{`tasks/get {"taskId":"own"}`}
			if test.result != "" {
				sent = append(sent, `tasks/result {"taskId":"own"}`)
			}
			want(t, test.status, up.sent(), sent...)
		}
		up.on("tasks/cancel", `{"code":-32602,"message":"it has ended"}`)
		if got := g.ask(s, "tasks/cancel", about); got != `{}` {
			t.Errorf("cancel after the end: %s", got)
		}
		up.isNow("working")
		if got := g.ask(s, "tasks/cancel", about); got != `{"code":-32602,"message":"it has ended"}` {
			t.Errorf("cancel refused: %s", got)
		}
		up.on("tasks/cancel", `{"taskId":"own","status":"cancelled"}`)
		if got := g.ask(s, "tasks/cancel", about); got != `{}` {
			t.Errorf("cancel: %s", got)
		}
		up.on("tasks/get", `{"code":-32602,"message":"Failed to retrieve task: Task not found"}`)
		for _, method := range []string{"tasks/get", "tasks/update"} {
			if got := g.ask(s, method, `{"taskId":"`+id+`","inputResponses":{}}`); got != `{"code":-32602,"message":"Failed to retrieve task: Task not found"}` {
				t.Errorf("%s of a forgotten task: %s", method, got)
			}
		}
		other := g.session("other", takesAll)
		other.old = stateless
		if got := g.ask(other, "tasks/get", about); got != `{"code":-32602,"message":"tasks/get: there is no such task"}` {
			t.Errorf("another principal: %s", got)
		}
		if left := g.router.bridged.order; len(left) > 0 {
			t.Errorf("%d tasks are remembered", len(left))
		}
	}
}

// TestBridgedTaskAsks checks that a client gets the questions of a task together with the task, and
// that the client's answers reach the upstream.
func TestBridgedTaskAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, up, s := bridgedRig(t, required, takesAll)
		id := g.bridge(s)
		get := func() string { return g.ask(s, "tasks/get", `{"taskId":"`+id+`"}`) }
		answered := make(chan wire.Reply, 3)
		ask := func(method, params string, owner ...any) {
			answered <- g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: method, Params: []byte(params), Owners: owners(owner...)})
		}
		ended := make(chan error, 1)
		up.answer["tasks/result"] = func(ctx context.Context, call wire.Call) (wire.Reply, error) {
			if call.Owner.(Origin).Session() != Session(s) {
				t.Errorf("the result is asked for on behalf of %v", call.Owner)
			}
			go ask("elicitation/create", `{"message":"Name?","elicitationId":"e","_meta":{"progressToken":1}}`, call.Owner)
			go ask("roots/list", `{`+related+`,"x":1}`)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return wire.Reply{}, context.Cause(ctx)
		}
		up.isNow("input_required")
		if first := get(); !strings.Contains(first, `"method"`) { // the request waits for a question, not for both
			t.Fatalf("asked %s", first)
		}
		synctest.Wait()
		first := get()
		for _, part := range []string{`"status":"input_required"`, `{"method":"elicitation/create","params":{"message":"Name?"}}`, `"method":"roots/list"`} {
			if !strings.Contains(first, part) {
				t.Fatalf("asked %s", first)
			}
		}
		synctest.Wait()
		if again := get(); strings.Count(again, `"method"`) != 2 {
			t.Errorf("again: %s", again)
		}
		requests, _ := wire.Get([]byte(get()), "inputRequests")
		all, _ := wire.Members(requests)
		roots, login := all[0].Name, all[1].Name
		if strings.Contains(string(all[0].Value), "elicitation") {
			roots, login = login, roots
		}
		update := func(answers string) string {
			return g.ask(s, "tasks/update", `{"taskId":"`+id+`","inputResponses":{`+answers+`}}`)
		}
		if got := update(`"` + login + `":{"action":"accept"},"` + roots + `":{"no":1}`); !strings.Contains(got, "-32602") || len(answered) > 0 {
			t.Errorf("malformed: %s", got)
		}
		if got := update(`"` + login + `":{"action":"accept"},"none":{}`); got != `{}` {
			t.Errorf("one of two: %s", got)
		}
		if got := <-answered; string(got.Result) != `{"action":"accept"}` {
			t.Errorf("the upstream got %s %s", got.Result, got.Error)
		}
		if left := get(); strings.Contains(left, `"`+login+`"`) || !strings.Contains(left, `"`+roots+`"`) {
			t.Errorf("left: %s", left)
		}
		update(`"` + roots + `":{"roots":[]},"` + login + `":{"action":"cancel"}`)
		if got := <-answered; string(got.Result) != `{"roots":[]}` {
			t.Errorf("the upstream got %s %s", got.Result, got.Error)
		}
		if got := get(); !strings.Contains(got, `"status":"working"`) {
			t.Errorf("answered, but %s", got)
		}
		// The client is not asked for capabilities no longer declared, nor by messages other than
		// questions.
		s.params = `{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		up.isNow("working")
		get()
		for _, method := range []string{"roots/list", "acme/x"} {
			ask(method, `{`+related+`}`)
			if got := <-answered; wire.ParseError(got.Error).Code != wire.CodeMethodNotFound {
				t.Errorf("%s: %s %s", method, got.Result, got.Error)
			}
		}
		// The upstream and the task are gone: the result is not waited for.
		up.on("tasks/get", `{"code":-32602,"message":"gone"}`)
		get()
		synctest.Wait()
		if ended := <-ended; ended == nil {
			t.Error("the request for the result was not cancelled")
		}
		g.router.Close()
	})
}

// TestWatchBridgedTask checks that changes of a task of the handshake era are announced to the
// watchers, whether or not the upstream announces changes.
func TestWatchBridgedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, up, s := bridgedRig(t, optional, takesAll)
		id := g.bridge(s)
		told := func(members string) {
			t.Helper()
			synctest.Wait()
			want(t, "told", s.heard(), `notifications/tasks {"taskId":"`+id+`",`+bridgedAs+","+members+`}`)
		}
		stop, ok := g.router.WatchTask(t.Context(), s, id)
		if !ok {
			t.Fatal("refused")
		}
		up.sent()
		time.Sleep(minWatchPoll)
		synctest.Wait()
		want(t, "told", s.heard())
		want(t, "sent", up.sent(), `tasks/get {"taskId":"own"}`)
		go g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "roots/list", Params: []byte(`{"x":1,` + related + `}`)})
		told(`"status":"input_required","inputRequests":{"q1":{"method":"roots/list","params":{"x":1}}}`)
		g.ask(s, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"q1":{"roots":[]}}}`)
		told(`"status":"working"`)
		up.isNow("completed")
		up.on("tasks/result", `{"content":[]}`)
		g.router.OnNotification("a", wire.Inbound{Method: "notifications/tasks/status", Params: []byte(`{"taskId":"own","status":"completed"}`)})
		told(`"status":"completed","result":{"content":[]}`)
		up.sent()
		time.Sleep(time.Minute)
		want(t, "sent after the end", up.sent())
		stop()
		if stop, ok = g.router.WatchTask(t.Context(), s, id); !ok {
			t.Error("a task that has ended is not watched")
		} else {
			told(`"status":"completed","result":{"content":[]}`)
			stop()
		}
		up.on("tasks/get", `{"code":-32602,"message":"gone"}`)
		if _, ok := g.router.WatchTask(t.Context(), s, id); ok || len(g.router.watched) > 0 || len(g.router.bridged.order) > 0 {
			t.Error("a task that is gone is watched")
		}
		g.router.Close()
	})
}

// TestTaskParam checks the fate of the member task of a call, which only a client and an upstream
// of the handshake era have.
func TestTaskParam(t *testing.T) {
	const offered, plain = toolTasksOffered, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`
	const refused = `{"code":-32601,"message":"tools/call: tool \"a__t\" cannot be called as a task"}`
	for _, test := range []struct {
		revision, server string
		told             string // the capabilities for the client
		sent, want       string
	}{
		{"2025-11-25", offered, offered, `,"task":{"ttl":1}`, `{}`},
		{"2025-11-25", plain, plain, `,"task":{"ttl":1}`, `{}`},
		{"2025-11-25", tasksOffered, offered, "", refused},
		{"2025-11-25", tasksOffered, tasksOffered, ``, `{}`},
		{stateless, offered, offered, ``, `{}`},
		{stateless, tasksOffered, tasksOffered, `,"task":{"ttl":1}`, `{}`},
	} {
		g, up, s := eras(t, test.revision, `{}`)
		up.server = test.server
		up.on("tools/call", `{}`)
		g.router.with(s, func(c *client) { c.offered, _ = wire.Get([]byte(test.told), "capabilities") })
		if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+`,"task":{"ttl":1}}`); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
		if test.want == refused {
			want(t, "sent", up.sent())
			continue
		}
		want(t, test.revision+" "+test.server, up.sent(), `tools/call {"name":"t","arguments":{"n":1}`+test.sent+`}`)
	}
}

// TestUnbridgedTask checks when a tool of the handshake era is not called as a task, and that
// clients of the stateless era are told about tasks.
func TestUnbridgedTask(t *testing.T) {
	for name, test := range map[string]struct{ definition, capabilities, server string }{
		"not declared":    {optional, `{}`, toolTasksOffered},
		"not offered":     {optional, takesAll, `{"capabilities":{"tools":{},"tasks":{"list":{}}}}`},
		"not of the tool": {`{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"forbidden"}}`, takesAll, toolTasksOffered},
	} {
		g, up, s := bridgedRig(t, test.definition, test.capabilities)
		up.server = test.server
		up.on("tools/call", `{"content":[]}`)
		if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}"); got != `{"content":[]}` {
			t.Errorf("%s: %s", name, got)
		}
		want(t, name, up.sent(), `tools/call {"name":"t","arguments":{"n":1}}`)
		offers := has(g.router.Discover(nil).Capabilities, "extensions", "io.modelcontextprotocol/tasks")
		if offers != (test.server == toolTasksOffered) {
			t.Errorf("%s: offered %v", name, offers)
		}
	}
	g, _, _ := bridgedRig(t, optional, takesAll)
	result, err := g.router.BeginSession(t.Context(), &fakeSession{name: "legacy"})
	if err != nil || has(result.Capabilities, "extensions") || !has(result.Capabilities, toolTasks...) {
		t.Errorf("%s, %v", result.Capabilities, err)
	}
	// The upstream may still answer at once, or with a malformed task.
	g, up, s := bridgedRig(t, optional, takesAll)
	up.on("tools/call", `{"content":[]}`)
	if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}"); got != `{"content":[]}` {
		t.Error(got)
	}
	for _, bad := range []string{`{"task":{}}`, `{"task":{"taskId":"own","status":"working","Status":"x"}}`, `{"task":[]}`} {
		up.on("tools/call", bad)
		if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}"); !strings.Contains(got, "-32603") {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

// TestBridgedTasksBound checks that as many tasks are remembered as allowed, of a principal and of
// all, tasks waiting for a client are not forgotten, and a principal with a full share does not
// displace tasks of other principals.
func TestBridgedTasksBound(t *testing.T) {
	g, _, s := bridgedRig(t, optional, takesAll)
	a := &g.router.bridged
	remember := func(s Session, from, n int) (err error) {
		for i := range n {
			if _, err = a.get(g.router, watchKey{id: fmt.Sprint(from + i)}, s); err != nil {
				return err
			}
		}
		return nil
	}
	others := g.session("other", "{}")
	if err := errors.Join(remember(others, 0, 1), remember(s, 1, maxBridgedFor+1)); err != nil {
		t.Fatal(err)
	}
	if len(a.order) != 1+maxBridgedFor || a.find(watchKey{id: "0"}) == nil || a.find(watchKey{id: "1"}) != nil {
		t.Errorf("%d tasks, with the oldest", len(a.order))
	}
	for _, t := range a.order {
		t.questions = []*taskQuestion{{}}
	}
	if err := remember(s, 10_000, 1); !errors.Is(err, errManyBridged) {
		t.Errorf("a task that waits for its client was forgotten: %v", err)
	}
	if err := remember(others, 2, 1); !errors.Is(err, errNotOwn) {
		t.Errorf("another principal has the task: %v", err)
	}
	for i := range maxBridged/maxBridgedFor - 1 {
		if err := remember(g.session(fmt.Sprint("more", i), "{}"), 20_000+1000*i, maxBridgedFor-1); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(remember(g.session("last", "{}"), 30_000, maxBridgedFor)); err != nil || len(a.order) != maxBridged {
		t.Errorf("%d tasks of all: %v", len(a.order), err)
	}
}
