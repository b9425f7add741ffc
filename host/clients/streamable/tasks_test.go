package streamable

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// tasked is a Backend with tasks of the extension. It announces changes of the tasks with ids that
// begin with "t".
type tasked struct {
	*clienttest.Backend
	stopped chan string // tasks that are no longer watched
}

func (b *tasked) Discover(s route.Session) route.InitializeResult {
	r := b.Backend.Discover(s)
	r.Capabilities, _ = wire.Set(r.Capabilities, []byte("{}"), "extensions", "io.modelcontextprotocol/tasks")
	return r
}

func (b *tasked) WatchTask(_ context.Context, _ route.Session, id string) (stop func(), ok bool) {
	return func() { b.stopped <- id }, strings.HasPrefix(id, "t")
}

func (b *tasked) Handle(ctx context.Context, call route.Call) wire.Reply {
	if call.Method == "tasks/get" {
		return wire.Reply{Result: []byte(`{"seen":true}`)}
	}
	return b.Backend.Handle(ctx, call)
}

const withTasks = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// taskRequest is a request of a client with the extension.
func taskRequest(id, method, members string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s,"_meta":%s}}`, id, method, members, withTasks)
}

// TestTaskFilter checks subscriptions to tasks: the acknowledged tasks, that each stream gets only
// the stream's own tasks, with the stream's own id, and that the end of a stream ends watching
// them.
func TestTaskFilter(t *testing.T) {
	t.Parallel()
	b := &tasked{stopped: make(chan string, 10)}
	w := newServer(t, Options{Session: options(b)})
	g := w.client()
	listen := func(id, tasks, acknowledged string) *events {
		body := taskRequest(id, "subscriptions/listen", `"notifications":{"taskIds":`+tasks+`}`)
		e := g.stream("POST", body, headers(body)...)
		e.want(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"notifications":` + acknowledged + `}}`)
		return e
	}
	first := listen("1", `["t1","none","t1"]`, `{"taskIds":["t1"]}`)
	second := listen(`"two"`, `["t1","t2"]`, `{"taskIds":["t1","t2"]}`)
	listen("3", `["none"]`, `{}`).cancel()
	s := w.session()
	told := func(e *events, id, task string) {
		t.Helper()
		e.want(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"` + task + `","n":1.0,"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`)
	}
	for _, task := range []string{"none", "t2", "t1"} {
		s.Notify("notifications/tasks", []byte(`{"taskId":"`+task+`","n":1.0}`))
	}
	told(first, "1", "t1")
	told(second, `"two"`, "t2")
	told(second, `"two"`, "t1")
	first.cancel()
	if id := <-b.stopped; id != "t1" {
		t.Errorf("stopped %s", id)
	}
	s.Notify("notifications/tasks", []byte(`{"taskId":"t1","n":1.0}`))
	told(second, `"two"`, "t1")

	undeclared := modern("4", "subscriptions/listen", `"notifications":{"taskIds":["t1"],"toolsListChanged":true}`)
	g.answers(g.modern(undeclared), 400, `{"jsonrpc":"2.0","id":4,"error":{"code":-32021,"message":"subscriptions/listen: the client does not declare the extension io.modelcontextprotocol/tasks",`+
		`"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`)
	go w.close()
	e := second.next()
	if !strings.HasPrefix(e, `{"jsonrpc":"2.0","id":"two","result":`) {
		t.Error(e)
	}
	second.end()
	for range 2 {
		<-b.stopped
	}
}

// TestTaskName checks that the header Mcp-Name of a request about a task is the task's id.
func TestTaskName(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Session: options(&tasked{})})
	g := w.client()
	body := taskRequest("1", "tasks/get", `"taskId":"t1"`)
	for _, tt := range []struct {
		name   string
		status int
		want   string
	}{
		{"t1", 200, `{"jsonrpc":"2.0","id":1,"result":{"seen":true,"resultType":"complete","_meta":$S}}`},
		{"=?base64?dDE=?=", 200, `{"jsonrpc":"2.0","id":1,"result":{"seen":true,"resultType":"complete","_meta":$S}}`},
		{"t2", 400, errorText("1", -32020, "the header Mcp-Name does not match the body")},
		{"", 400, errorText("1", -32020, "the header Mcp-Name is missing")},
	} {
		g.answers(g.modern(body, "Mcp-Name", tt.name), tt.status, tt.want)
	}
}
