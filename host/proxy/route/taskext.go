package route

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Tasks of the extension (github.com/modelcontextprotocol/ext-tasks, specification/draft/tasks.md)
// belong to no session. The id for clients has the name of the server and the server's own id
// sealed in it, so nothing is remembered, and only the principal that has created a task reaches
// the task.

// taskLife is how long a client can use the id of a task. Servers decide when they forget a task;
// taskLife only has to be longer.
const taskLife = 10 * 365 * 24 * time.Hour

// openTask returns the task with an id of ours, and the other replica with the task, "" for none;
// ok is false if s can reach no task with this id.
func (r *Router) openTask(s Session, id string) (t taskKey, home string, ok bool) {
	state, err := r.Sealer.OpenState(TaskBinding(s.Principal()), id)
	if err != nil || state.Kind != requeststate.Task {
		return taskKey{}, "", false
	}
	server, own, ok := bytes.Cut(state.Payload, []byte{0})
	return taskKey{string(server), string(own)}, state.Home, ok
}

// sealTask gives a task that an upstream has made of the call the id for the client. Other replies
// are returned unchanged.
func (c *toolCall) sealTask(reply wire.Reply) wire.Reply {
	if task, made := c.createdTask(reply); made {
		return task
	}
	if !reply.Stateless || !c.takesTasks() || !isTask(reply) {
		return reply
	}
	own, ok := wire.GetString(reply.Result, "taskId")
	if !ok || len(own) > maxID {
		return fail(wire.CodeInternal, "tools/call: upstream %q answered with a task whose id is missing or too long", c.server)
	}
	id, err := c.router.sealTaskID(c.origin.Session(), taskKey{c.server, own}, c.router.shares(c.server))
	if err == nil {
		reply.Result, err = wire.Set(reply.Result, wire.Quote(id), "taskId")
	}
	if err != nil {
		return fail(wire.CodeInternal, "tools/call: task of upstream %q: %v", c.server, err)
	}
	reply.Own = true // so that adapt leaves the reply as it is
	return reply
}

// takesTasks reports whether the caller can get a task.
func (c *toolCall) takesTasks() bool { return c.agent && takesTasks(c.origin) }

// takesTasks reports whether a request declares the extension, which only the stateless era has.
func takesTasks(o Origin) bool {
	return isStateless(o) && declares(o.Client(), "extensions", protocol.ExtensionTasks)
}

// needsTask reports whether an upstream has refused a call only because the caller does not declare
// tasks, and we can declare tasks in place of the caller. A client of the stateless era can declare
// tasks itself.
func (c *toolCall) needsTask(reply wire.Reply) bool {
	if c.waits || !reply.Stateless || reply.Error == nil || c.agent && isStateless(c.origin) {
		return false
	}
	bad := wire.ParseError(reply.Error)
	if bad.Code != protocol.CodeMissingCapability {
		return false
	}
	required, _ := wire.Get(bad.Data, "requiredCapabilities")
	all, _ := wire.Members(required)
	extensions, _ := wire.Get(required, "extensions")
	named, _ := wire.Members(extensions)
	return len(all) == 1 && len(named) == 1 && named[0].Name == protocol.ExtensionTasks
}

// declareTasks returns a client's description of itself, with the extension.
func declareTasks(client []byte) []byte {
	if declared, err := wire.Set(client, []byte("{}"), "capabilities", "extensions", protocol.ExtensionTasks); err == nil {
		return declared
	}
	return client
}

// withoutTaskExtension removes the extension from capabilities, because a client of the handshake
// era cannot use the extension.
func withoutTaskExtension(capabilities []byte) []byte {
	if _, ok := wire.Get(capabilities, "extensions", protocol.ExtensionTasks); !ok {
		return capabilities
	}
	rest, err := wire.Delete(capabilities, "extensions", protocol.ExtensionTasks)
	if err != nil {
		return capabilities
	}
	if extensions, _ := wire.Get(rest, "extensions"); string(extensions) == "{}" {
		rest, _ = wire.Delete(rest, "extensions") // cannot fail: rest has been parsed
	}
	return rest
}

// TasksUndeclared returns the error for a request about tasks of a client that does not declare the
// extension.
func TasksUndeclared(method string) *wire.RPCError {
	var required, extensions wire.Object
	extensions.Raw(protocol.ExtensionTasks, []byte("{}"))
	required.Raw("extensions", extensions.Bytes())
	return envelope.MissingCapability(required.Bytes(), "%s: the client does not declare the extension %s", method, protocol.ExtensionTasks)
}

// extensionTask answers a request about a task of the extension by asking the upstream with the
// task.
func (r *Router) extensionTask(ctx context.Context, call Call) wire.Reply {
	s := call.Origin.Session()
	id, bad := stringParam(call, "taskId")
	t, home, known := r.openTask(s, id)
	switch {
	case !known && !r.offersTasks(s), !protocol.IsTaskRequest(call.Method):
		return notFound(call.Method)
	case !takesTasks(call.Origin):
		return wire.Reply{Error: TasksUndeclared(call.Method).Raw(), Own: true}
	case bad != nil:
		return wire.Reply{Error: bad.Raw()}
	}
	if known && t.server == "" {
		return r.runTaskRequest(ctx, call, t.id, id, home)
	}
	if home != "" && !r.shares(t.server) {
		return r.lost(call.Method, home, "a task of its server "+strconv.Quote(t.server))
	}
	to, there := r.to(s, t.server)
	if !known || !there {
		return fail(wire.CodeInvalidParams, "%s: there is no such task", call.Method)
	}
	if err := to.Ready(ctx); err != nil { // the known era may be from an earlier run
		r.warn(ctx, err, "request failed", "upstream", t.server, "method", call.Method)
		return fail(wire.CodeInternal, "%s: %v", call.Method, err)
	}
	if !to.isStateless(ctx) {
		return r.bridgedRequest(ctx, call, to, t.id, id)
	}
	params, err := wire.Set(call.Params, wire.Quote(t.id), "taskId")
	if err != nil {
		return fail(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	reply := r.forward(ctx, call, to, params, nil)
	if reply.Error != nil {
		return reply
	}
	if err := wire.ExtensionTaskShape.Check(reply.Result); err != nil {
		return fail(wire.CodeInternal, "%s: %v", call.Method, err)
	}
	if reply.Result, err = ownID(reply.Result, id); err != nil {
		return fail(wire.CodeInternal, "%s: malformed answer: %v", call.Method, err)
	}
	return reply
}

// ownID replaces the id of a task in a result or notification, and corrects the type of a result,
// which is no new task (specification/draft/tasks.md, "Task Polling"; its examples differ).
func ownID(task []byte, id string) ([]byte, error) {
	var err error
	if _, ok := wire.Get(task, "taskId"); ok {
		if task, err = wire.Set(task, wire.Quote(id), "taskId"); err != nil {
			return nil, err
		}
	}
	if kind, _ := wire.GetString(task, "resultType"); kind == envelope.TypeTask {
		return wire.Set(task, wire.Quote(envelope.TypeComplete), "resultType")
	}
	return task, nil
}
