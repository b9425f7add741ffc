package route

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// withTask creates a task of an upstream for a session.
func (g *rig) withTask(s *fakeSession, server, id string) {
	g.t.Helper()
	g.ups[server].on("tools/call", `{"task":{"taskId":"`+id+`"}}`)
	g.lists(server, wire.Tools, "t")
	if got := g.ask(s, "tools/call", `{"name":"`+server+`__t","task":{}}`); got != `{"task":{"taskId":"`+id+`"}}` {
		g.t.Fatalf("got %s", got)
	}
	g.ups[server].sent()
}

func TestTasks(t *testing.T) {
	g := newRig(t, "a", "b")
	x, y := g.session("x", `{}`), g.session("y", `{}`)
	g.withTask(x, "b", "t1")
	g.withTask(y, "b", "t2")
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		if got, want := g.ask(x, method, `{"taskId":"t1","_meta":{}}`), `{"server":"b","method":"`+method+`","params":{"taskId":"t1","_meta":{}}}`; got != want {
			t.Errorf("got %s", got)
		}
		if got, want := g.ask(y, method, `{"taskId":"t1"}`), `{"code":-32602,"message":"`+method+`: this session has no task \"t1\""}`; got != want {
			t.Errorf("another session's: %s", got)
		}
	}
	g.notice("b", "notifications/tasks/status", `{"taskId":"t1"}`, y.request("1"))
	g.notice("a", "notifications/tasks/status", `{"taskId":"t2"}`)
	g.notice("b", "notifications/message", `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t2"}}}`, x.request("1"))
	want(t, "x", x.heard(), `notifications/tasks/status {"taskId":"t1"}`)
	want(t, "y", y.heard(), `notifications/message {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t2"}},"logger":"b"}`)
	m := wire.Inbound{Method: "x/y", Params: []byte(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t2"}}}`), Owners: owners(x, y)}
	if got := g.router.OnRequest(t.Context(), "b", m); string(got.Result) != `{"client":"y","method":"x/y"}` {
		t.Errorf("asked %s%s", got.Result, got.Error)
	}
}

// TestTaskOfTheSameID checks that a server cannot take over the task of another server by giving a
// task the same id.
func TestTaskOfTheSameID(t *testing.T) {
	g := newRig(t, "a", "b")
	s := g.session("s", `{}`)
	g.withTask(s, "a", "t1")
	g.withTask(s, "b", "t1")
	if got := g.ask(s, "tasks/result", `{"taskId":"t1"}`); got != `{"server":"a","method":"tasks/result","params":{"taskId":"t1"}}` {
		t.Errorf("got %s", got)
	}
}

// TestStatusBeforeTheTaskIsKnown checks that a status that arrives before the task is kept until
// the task is known.
func TestStatusBeforeTheTaskIsKnown(t *testing.T) {
	g := newRig(t, "a")
	x, y := g.session("x", able), g.session("y", able)
	g.notice("a", "notifications/tasks/status", `{"taskId":"t1","n":1}`, y.request("1"))
	g.notice("a", "notifications/tasks/status", `{"taskId":"t1","n":2}`)
	want(t, "y", y.heard())
	g.withTask(x, "a", "t1")
	want(t, "x", x.heard(), `notifications/tasks/status {"taskId":"t1","n":2}`)

	g.router.Notified(x, "notifications/tasks/status", []byte(`{"taskId":"c1"}`))
	x.asked = func(context.Context, wire.Call) (wire.Reply, error) { return reply(`{"task":{"taskId":"c1"}}`), nil }
	g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "sampling/createMessage", Params: []byte(`{"task":{}}`), Owners: owners(x)})
	if got := <-g.ups["a"].notice; got != `notifications/tasks/status {"taskId":"c1"}` {
		t.Errorf("got %s", got)
	}
}

func TestTaskThatIsNotRemembered(t *testing.T) {
	g := newRig(t, "a", "b")
	s := g.session("s", `{}`)
	g.ups["a"].on("tasks/get", `{"code":-32602,"message":"no"}`)
	if got := g.ask(s, "tasks/get", `{"taskId":"old"}`); got != `{"server":"b","method":"tasks/get","params":{"taskId":"old"}}` {
		t.Errorf("of the only session: %s", got)
	}
	g.ups["a"].sent()
	g.ask(s, "tasks/get", `{"taskId":"old"}`)
	want(t, "a, once it is known", g.ups["a"].sent())
	g.ups["b"].on("tasks/get", `{"code":-32603,"message":"no"}`)
	if got := g.ask(s, "tasks/get", `{"taskId":"none"}`); got != `{"code":-32602,"message":"tasks/get: this session has no task \"none\""}` {
		t.Errorf("nobody's: %s", got)
	}
}

func TestListOfTasks(t *testing.T) {
	g := newRig(t, "a", "b", "c")
	g.ups["c"].server = `{"capabilities":{"tasks":{}}}`
	s := g.session("s", `{}`)
	pages := map[string]string{
		`{}`: `{"tasks":[{"taskId":"t1"}],"nextCursor":"2","_meta":{"k":1}}`, `{"cursor":"2"}`: `{"tasks":[{"taskId":"t2"}]}`,
	}
	g.ups["a"].answer["tasks/list"] = func(_ context.Context, call wire.Call) (wire.Reply, error) {
		return reply(pages[string(call.Params)]), nil
	}
	g.ups["b"].on("tasks/list", `{"tasks":[{"taskId":"t3","x":1.0}],"_meta":{"k":1}}`)
	if got := g.ask(s, "tasks/list", `{}`); got != `{"tasks":[{"taskId":"t1"},{"taskId":"t2"},{"taskId":"t3","x":1.0}],"_meta":{"k":1}}` {
		t.Errorf("of all: %s", got)
	}
	g.withTask(s, "a", "t2")
	g.session("other", `{}`)
	if got := g.ask(s, "tasks/list", `{}`); got != `{"tasks":[{"taskId":"t2"}],"_meta":{"k":1}}` {
		t.Errorf("of one of several sessions: %s", got)
	}
	if got := g.ask(s, "tasks/list", `{"cursor":"x"}`); wire.ParseError([]byte(got)).Code != wire.CodeInvalidParams {
		t.Errorf("with a cursor: %s", got)
	}
	g.ups["b"].on("tasks/list", `{"code":-1,"message":"b"}`)
	if got := g.ask(s, "tasks/list", `{}`); got != `{"tasks":[{"taskId":"t2"}],"_meta":{"k":1}}` {
		t.Errorf("without the one that fails: %s", got)
	}
	g.ups["a"].on("tasks/list", `{"code":-1,"message":"a"}`)
	if got := g.ask(s, "tasks/list", `{}`); got != `{"code":-1,"message":"a"}` {
		t.Errorf("all fail: %s", got)
	}
	g.ups["a"].on("tasks/list", `{"tasks":[],"nextCursor":"again"}`)
	g.ups["b"].on("tasks/list", `{"tasks":7}`)
	if got := g.ask(s, "tasks/list", `{}`); got != `{"code":-32603,"message":"tasks/list: upstream \"a\" has more than 100 pages of tasks"}` {
		t.Errorf("endless: %s", got)
	}
	many := make([]string, maxListed+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"taskId":"%d"}`, i)
	}
	first := `{"tasks":[` + strings.Join(many[:maxListed], ",") + `],"nextCursor":"2"}`
	for _, tt := range []struct{ name, page, last, want string }{
		{"in one page", `{"tasks":[` + strings.Join(many, ",") + `]}`, "", "has more than 10000 tasks"},
		{"in the last page", first, `{"tasks":[` + many[maxListed] + `]}`, "has more than 10000 tasks"},
		{"none in the last page", first, `{"tasks":[]}`, ""},
		{"large", `{"tasks":[{"taskId":"` + strings.Repeat("x", maxTaskBytes) + `"}]}`, "", "have more than 4194304 bytes"},
	} {
		g.ups["a"].answer["tasks/list"] = func(_ context.Context, call wire.Call) (wire.Reply, error) {
			if string(call.Params) == `{}` {
				return reply(tt.page), nil
			}
			return reply(tt.last), nil
		}
		if got := g.ask(s, "tasks/list", `{}`); tt.want == "" && wire.ParseError([]byte(got)).Code != 0 || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %.200s", tt.name, got)
		}
	}
}

func TestListOfTasksOfOneUpstream(t *testing.T) {
	g := newRig(t, "a")
	s := g.session("s", `{}`)
	const page = `{ "tasks":[{"taskId":"t1"},{"taskId":"t2"}],"nextCursor":"n","x":1}`
	g.ups["a"].on("tasks/list", page)
	if got := g.ask(s, "tasks/list", `{"cursor":"c"}`); got != page {
		t.Errorf("of the only session: %s", got)
	}
	want(t, "a", g.ups["a"].sent(), `tasks/list {"cursor":"c"}`)
	g.withTask(s, "a", "t2")
	g.session("other", `{}`)
	if got := g.ask(s, "tasks/list", `{}`); got != `{ "tasks":[{"taskId":"t2"}],"nextCursor":"n","x":1}` {
		t.Errorf("of one of several sessions: %s", got)
	}
}

func TestTasksOfClients(t *testing.T) {
	g := newRig(t, "a", "b")
	x, y := g.session("x", able), g.session("y", able)
	make := func(s *fakeSession, server, id string) {
		s.asked = func(context.Context, wire.Call) (wire.Reply, error) {
			return reply(`{"task":{"taskId":"` + id + `"}}`), nil
		}
		g.router.OnRequest(t.Context(), server, wire.Inbound{Method: "sampling/createMessage", Params: []byte(`{"task":{}}`), Owners: owners(s)})
		s.asked = nil
	}
	make(x, "a", "1")
	make(y, "a", "2")
	make(y, "b", "3")
	get := func(server, id string) string {
		got := g.router.OnRequest(t.Context(), server, wire.Inbound{Method: "tasks/get", Params: []byte(`{"taskId":"` + id + `"}`), Owners: owners(x, y)})
		return string(got.Result) + string(got.Error)
	}
	for _, tt := range []struct{ server, id, want string }{
		{"a", "1", `{"client":"x","method":"tasks/get"}`},
		{"a", "2", `{"client":"y","method":"tasks/get"}`},
		{"a", "3", `{"code":-32602,"message":"tasks/get: no client has a task \"3\" for upstream \"a\""}`},
	} {
		if got := get(tt.server, tt.id); got != tt.want {
			t.Errorf("%s of %s: %s", tt.id, tt.server, got)
		}
	}
	make(x, "a", "2") // as y's
	if got := get("a", "2"); wire.ParseError([]byte(got)).Code != wire.CodeInternal {
		t.Errorf("of two: %s", got)
	}
	y.asked = func(context.Context, wire.Call) (wire.Reply, error) {
		return reply(`{"tasks":[{"taskId":"2"},{"taskId":"3"},{}]}`), nil
	}
	list := g.router.OnRequest(t.Context(), "b", wire.Inbound{Method: "tasks/list", Owners: owners(y)})
	if string(list.Result) != `{"tasks":[{"taskId":"3"}]}` {
		t.Errorf("list for b: %s%s", list.Result, list.Error)
	}
	g.router.Notified(y, "notifications/tasks/status", []byte(`{"taskId":"3"}`))
	if got := <-g.ups["b"].notice; got != `notifications/tasks/status {"taskId":"3"}` || len(g.ups["a"].notice) != 0 {
		t.Errorf("b got %s, a %d", got, len(g.ups["a"].notice))
	}
	if bad := g.router.OnRequest(t.Context(), "a", wire.Inbound{Method: "tasks/get", Owners: owners()}); bad.Error == nil {
		t.Error("a task without an id")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var r recent[string, int]
	r.limit = 3
	for i := range 10 {
		r.put(fmt.Sprint(i), i, 1)
	}
	r.put("8", 80, 1)
	if v, ok := r.take("8"); v != 80 || !ok || len(r.order) != 2 || len(r.values) != 2 {
		t.Errorf("%v, %v", r.order, r.values)
	}
	if _, ok := r.get("6"); ok {
		t.Error("the oldest was kept")
	}
	var statuses recent[string, []byte]
	statuses.limit = 1
	keepStatus(&statuses, "a", "a", make([]byte, maxEarlyStatus+1))
	keepStatus(&statuses, "b", string(make([]byte, maxID+1)), nil)
	if len(statuses.order) != 0 {
		t.Error("something large was kept")
	}
}
