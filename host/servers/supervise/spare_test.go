package supervise

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// crowd is an upstream with a parked call, so that the calls of other clients go to a spare, with
// an observer of the upstream's processes: the first is the upstream's own.
type crowd struct {
	*managedUpstream
	rig       *rig
	anonymous *strangers
	observer  *mcptest.Observer
}

func newCrowd(t *testing.T) *crowd {
	o, err := mcptest.NewObserver()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	r := start(t, configOf(t, subprocess(mcptest.ServerOptions{Observer: o.Addr()})), ManyClients)
	m, err := r.sharedUpstream("u")
	if err == nil {
		err = m.Ready(bounded(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{managedUpstream: m, rig: r, anonymous: &strangers{}, observer: o}
	parked := &strangerRequest{strangers: c.anonymous}
	_, leave := m.place(0, wire.Call{Method: protocol.MethodToolsCall, Params: []byte(`{"name":"echo"}`), Owner: parked}, true)
	t.Cleanup(leave)
	parked.parked = true
	return c
}

// callTool calls a tool for another client, over the spare.
func (c *crowd) callTool(t *testing.T, tool, arguments string) (result []byte) {
	t.Helper()
	reply, err := c.Call(bounded(t), wire.Call{
		Method: protocol.MethodToolsCall, Params: []byte(mcptest.ToolParams(tool, arguments, "")), Owner: &strangerRequest{strangers: c.anonymous},
	})
	if err != nil || reply.Result == nil || len(c.spares.all) != 1 {
		t.Fatalf("%s: %s %v, %d spares", tool, reply.Error, err, len(c.spares.all))
	}
	return reply.Result
}

// tell makes a request of no client, which goes to the upstream's own process.
func (c *crowd) tell(t *testing.T, method, params string) {
	t.Helper()
	if reply, err := c.Call(bounded(t), wire.Call{Method: method, Params: []byte(params)}); err != nil || reply.Result == nil {
		t.Fatalf("%s: %s %v", method, reply.Error, err)
	}
}

// arrived waits until a process has received a message with text, after the first from messages of
// the log, and returns the length of the log up to the message.
func (c *crowd) arrived(t *testing.T, process, from int, text string) int {
	t.Helper()
	stream := fmt.Sprintf("process %d", process)
	_, next, err := c.observer.Log.Find(bounded(t), stream+": "+text, from, func(e mcptest.Entry) bool {
		return e.Stream == stream && bytes.Contains(e.Raw, []byte(text))
	})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestSpareIsTold checks that a spare is told the log level and the subscriptions, also
// subscriptions that come and go while the spare runs, and the notifications of clients.
func TestSpareIsTold(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.tell(t, protocol.MethodSetLevel, `{"level":"debug"}`)
	c.tell(t, protocol.MethodResourcesSubscribe, `{"uri":"raw://text"}`)
	c.tell(t, protocol.MethodResourcesSubscribe, `{"uri":"raw://over"}`)
	c.tell(t, protocol.MethodResourcesUnsubscribe, `{"uri":"raw://over"}`)
	c.callTool(t, "echo", `{}`)
	for _, text := range []string{`"level":"debug"`, `"uri":"raw://text"`} {
		at := c.arrived(t, 2, 0, text)
		if c.arrived(t, 2, 0, `"name":"echo"`) < at {
			t.Errorf("%s comes after the call", text)
		}
	}
	c.tell(t, protocol.MethodResourcesSubscribe, `{"uri":"raw://late"}`)
	c.arrived(t, 2, 0, `"uri":"raw://late"`)
	from := c.observer.Log.Len()
	c.tell(t, protocol.MethodResourcesUnsubscribe, `{"uri":"raw://late"}`)
	c.arrived(t, 2, from, protocol.MethodResourcesUnsubscribe)
	c.tell(t, protocol.MethodSetLevel, `{"level":"error"}`)
	c.arrived(t, 2, from, `"level":"error"`)
	if err := c.Notify(bounded(t), protocol.NotificationRootsChanged, nil); err != nil {
		t.Error(err)
	}
	for process := range 2 {
		c.arrived(t, process+1, from, protocol.NotificationRootsChanged)
	}
	if n := count(c, "raw://over"); n != 0 {
		t.Errorf("the spare was told %d times of what was over", n)
	}
	if n := count(c, "raw://text"); n != 1 {
		t.Errorf("the spare was told %d times of one subscription", n)
	}
}

// count counts the received messages of the spare with a text.
func count(c *crowd, text string) int {
	return len(slices.DeleteFunc(c.observer.Log.All(), func(e mcptest.Entry) bool {
		return e.Stream != "process 2" || !bytes.Contains(e.Raw, []byte(text))
	}))
}

// TestSpareAnnounces checks that a spare's announcements because of a call reach clients: the
// update of a resource, and changes of lists.
func TestSpareAnnounces(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	updates := make(chan string, 1)
	c.rig.receiver.onNotification = func(n wire.Inbound) {
		if uri, ok := wire.GetString(n.Params, "uri"); ok && n.Method == protocol.NotificationResourceUpdated {
			updates <- uri
		}
	}
	c.tell(t, protocol.MethodResourcesSubscribe, `{"uri":"raw://text"}`)
	c.callTool(t, "touch", `{"uri":"raw://text"}`)
	select {
	case <-updates:
	case <-bounded(t).Done():
		t.Fatal("the update of the spare does not arrive")
	}
	for _, surface := range []wire.Surface{wire.Tools, wire.Resources, wire.Prompts} {
		from := c.observer.Log.Len()
		c.callTool(t, "change", fmt.Sprintf(`{"list":%q}`, surface))
		c.arrived(t, 1, from, surface.ListMethod())
	}
}

// TestAskingProcess checks that a message about a request of a server goes to the process that has
// made the request: another process may use the same progress token.
func TestAskingProcess(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.rig.receiver.onRequest = func(ctx context.Context, m wire.Inbound) wire.Reply {
		token, _ := wire.Get(m.Params, "_meta", "progressToken")
		if err := c.Notify(ctx, protocol.NotificationProgress, fmt.Appendf(nil, `{"progressToken":%s,"progress":1}`, token)); err != nil {
			t.Error(err)
		}
		return wire.Reply{Result: []byte(`{"roots":[]}`)}
	}
	got := c.callTool(t, "ask", `{"method":"roots/list","params":{"_meta":{"progressToken":7}}}`)
	if progress, _ := wire.Get(got, "progress"); !strings.Contains(string(progress), `"progress":1`) {
		t.Errorf("the spare has got no progress: %s", got)
	}
	for _, e := range c.observer.Log.All() {
		if e.Stream == "process 1" && bytes.Contains(e.Raw, []byte(protocol.NotificationProgress)) {
			t.Errorf("the upstream's own process got the progress: %s", e.Raw)
		}
	}
}
