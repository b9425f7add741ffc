package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// For a client that declares the extension, a tool of the handshake era is called as a task if the
// tool allows tasks. Requests of this client about the task are translated here.

// Bounds of the wait for the questions of a task that needs input.
const (
	questionWait = time.Second           // for the first question
	gatherWait   = 10 * time.Millisecond // then for further questions of the same task
)

// toolTasks is the path in the capabilities of a server of the handshake era to the support of tool
// calls as tasks.
var toolTasks = []string{"tasks", "requests", "tools", "call"}

// withTaskExtension adds the extension to the capabilities of a server of the handshake era with
// tools that can be called as tasks.
func withTaskExtension(capabilities []byte) []byte {
	if !has(capabilities, toolTasks...) {
		return capabilities
	}
	return catalog.Union(capabilities, []byte(`{"extensions":{"`+protocol.ExtensionTasks+`":{}}}`))
}

// offersTasks reports whether a session may have tasks of the extension.
func (r *Router) offersTasks(s Session) bool {
	return r.offered(s, "extensions", protocol.ExtensionTasks) || r.offered(s, toolTasks...)
}

// taskSupport returns whether a tool of the handshake era can be called as a task:
// "required", "optional", or something else for no (revision 2025-11-25,
// basic/utilities/tasks, "Tool-Level Negotiation").
func taskSupport(definition []byte) string {
	if !bytes.Contains(definition, []byte("taskSupport")) {
		return "" // most tools
	}
	support, _ := wire.GetString(definition, "execution", "taskSupport")
	return support
}

// mustBeTask reports whether a call of a client of the stateless era is made as a task of the
// handshake era: if the tool can only be called as a task, or if the tool can be called as a task
// and the client takes tasks.
func (r *Router) mustBeTask(o Origin, entry catalog.Entry) bool {
	if !isStateless(o) {
		return false
	}
	switch taskSupport(entry.Definition) {
	case "required":
		return true
	case "optional":
		if !takesTasks(o) {
			return false
		}
		to, ok := r.to(o.Session(), entry.Server)
		if !ok {
			return false
		}
		can, _ := to.offers(toolTasks...)
		return can
	}
	return false
}

// taskParam returns a call in the form for the upstream: the member task of the params exists only
// between a client and an upstream of the handshake era. ok is false if a client that may use the
// member wants a task of an upstream without tasks. If the client was not told of tasks, the member
// is ignored, as the revision demands.
func (r *Router) taskParam(call Call, server string, task bool) (_ Call, asTask, ok bool) {
	if !task {
		return call, false, true
	}
	modern := isStateless(call.Origin)
	to, there := r.to(call.Origin.Session(), server)
	switch known, era := to.era(); {
	case !there || !known, modern && era == protocol.Stateless: // the server ignores the member
		return call, task && !modern, true
	case !modern && era != protocol.Stateless:
		return call, true, true
	case !modern && r.told(call.Origin.Session(), toolTasks...):
		return call, false, false
	}
	if params, err := wire.Delete(call.Params, "task"); err == nil {
		call.Params = params
	}
	return call, false, true
}

// createdTask returns the task that an upstream of the handshake era has made of a call, in the
// form of the extension. made is false if the reply is no created task.
func (c *toolCall) createdTask(reply wire.Reply) (task wire.Reply, made bool) {
	raw, ok := wire.Get(reply.Result, "task")
	if !c.viaTask || !c.takesTasks() || reply.Stateless || !ok {
		return reply, false
	}
	own, ok := wire.GetString(raw, "taskId")
	if !ok || len(own) > maxID {
		return fail(wire.CodeInternal, "tools/call: upstream %q answered with a task whose id is missing or too long", c.server), true
	}
	r := c.router
	err := errors.New("the upstream is no longer configured")
	if to, there := r.to(c.origin.Session(), c.server); there {
		_, err = r.bridged.get(r, watchKey{to.key(), own}, c.origin)
	}
	if err != nil {
		return fail(wire.CodeInternal, "tools/call: upstream %q has made a task that cannot be reached, because %v", c.server, err), true
	}
	id, err := r.sealTaskID(c.origin.Session(), taskKey{c.server, own}, false) // the questions of the task wait here
	var result []byte
	if err == nil {
		meta, _ := wire.Get(reply.Result, "_meta")
		result, err = extended(raw, id, meta, envelope.TypeTask)
	}
	if err != nil {
		return fail(wire.CodeInternal, "tools/call: task of upstream %q: %v", c.server, err), true
	}
	return wire.Reply{Result: result, Own: true}, true
}

// notOfHandshake are members of a task in the extension only.
var notOfHandshake = []string{"resultType", "ttlMs", "pollIntervalMs", "inputRequests", "result", "error"}

// extended returns a task of the handshake era in the form of the extension, with more members.
// meta is the _meta of the result, nil for none; kind is the type of the result, "" for a
// notification.
func extended(task []byte, id string, meta []byte, kind string, more ...wire.Member) ([]byte, error) {
	all, ok := wire.Members(task)
	if err := wire.TaskShape.Check(task); err != nil || !ok {
		return nil, fmt.Errorf("it is malformed: %w", err)
	}
	o := wire.NewObject(len(task) + len(id) + 64)
	o.NonEmpty("resultType", kind)
	o.Text("taskId", id)
	endless := true
	for _, m := range all {
		switch name := m.Name; {
		case name == "taskId", name == "_meta", slices.Contains(notOfHandshake, name),
			slices.ContainsFunc(more, func(other wire.Member) bool { return other.Name == name }):
		case name == "ttl":
			o.Raw("ttlMs", m.Value)
			endless = false
		case name == "pollInterval":
			o.Raw("pollIntervalMs", m.Value)
		default:
			o.Raw(name, m.Value)
		}
	}
	if endless {
		o.Raw("ttlMs", []byte("null"))
	}
	for _, m := range more {
		o.Raw(m.Name, m.Value)
	}
	if meta == nil || kind == "" {
		return o.Bytes(), nil
	}
	o.Raw("_meta", meta)
	return withoutRelated(o.Bytes())
}

// withoutRelated removes the related task from the _meta of a result: the client knows the task
// anyway, by another id.
func withoutRelated(result []byte) ([]byte, error) {
	if _, ok := wire.Get(result, "_meta", relatedTask); !ok {
		return result, nil
	}
	result, err := wire.Delete(result, "_meta", relatedTask)
	if meta, _ := wire.Get(result, "_meta"); err == nil && string(meta) == "{}" {
		return wire.Delete(result, "_meta")
	}
	return result, err
}

// sealTaskID returns the id under which a session sees a task of an upstream. anywhere reports that
// each replica can ask about the task.
func (r *Router) sealTaskID(s Session, t taskKey, anywhere bool) (string, error) {
	inner := append(append([]byte(t.server), 0), t.id...)
	seal := r.Sealer.SealHere
	if anywhere {
		seal = r.Sealer.Seal
	}
	return seal(requeststate.Task, TaskBinding(s.Principal()), inner, taskLife)
}

// bridgedRequest answers a request about a task of the handshake era of a client that has the task
// as a task of the extension. id is the client's id of the task.
func (r *Router) bridgedRequest(ctx context.Context, call Call, to serverConn, own, id string) wire.Reply {
	params, err := wire.Set(call.Params, wire.Quote(own), "taskId")
	if err == nil && call.Method == protocol.MethodTasksUpdate {
		params, err = wire.Delete(params, "inputResponses")
	}
	if err != nil {
		return fail(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	t, err := r.bridged.get(r, watchKey{to.key(), own}, call.Origin)
	if err != nil {
		return fail(wire.CodeInternal, "%s: %v", call.Method, err)
	}
	switch call.Method {
	case protocol.MethodTasksUpdate:
		return t.update(ctx, call, to, params)
	case protocol.MethodTasksCancel:
		return t.cancel(ctx, to, params)
	}
	reply, _ := t.describe(ctx, to, params, id, envelope.TypeComplete)
	return reply
}

// request makes a request about the task. If the client no longer has rights, only tasks/cancel is
// sent.
func (t *bridgedTask) request(ctx context.Context, to serverConn, method string, params []byte) wire.Reply {
	out := wire.Call{Method: method, Params: params}
	if method != protocol.MethodTasksCancel {
		out.Permit = present{t.session}
	}
	t.router.onBehalf(&out, t)
	reply, err := to.Call(ctx, out)
	if err != nil {
		t.router.warn(ctx, err, "request failed", "upstream", to.server, "method", method)
		return fail(wire.CodeInternal, "%s: %v", method, err)
	}
	return reply
}

// describe returns the current task, or an error. ended reports that the task will not change
// again. kind is as for extended.
func (t *bridgedTask) describe(ctx context.Context, to serverConn, params []byte, id, kind string) (reply wire.Reply, ended bool) {
	task := t.request(ctx, to, protocol.MethodTasksGet, params)
	if task.Error != nil {
		t.router.bridged.forget(t) // unless the task is found again
		return task, true
	}
	status, _ := wire.GetString(task.Result, "status")
	ended = hasEnded(protocol.TaskStatus(status))
	more, err := t.details(ctx, to, params, protocol.TaskStatus(status))
	var result []byte
	if err == nil {
		meta, _ := wire.Get(task.Result, "_meta")
		result, err = extended(task.Result, id, meta, kind, more...)
	}
	if err != nil {
		return fail(wire.CodeInternal, "%s: task of upstream %q: %v", protocol.MethodTasksGet, to.server, err), ended
	}
	if ended {
		t.router.bridged.forget(t)
	}
	return wire.Reply{Result: result, Own: true}, ended
}

func hasEnded(status protocol.TaskStatus) bool {
	switch status {
	case protocol.TaskWorking, protocol.TaskInputRequired:
		return false
	}
	return true
}

// details returns the members of a task of a status in the extension, and the status itself.
func (t *bridgedTask) details(ctx context.Context, to serverConn, params []byte, status protocol.TaskStatus) ([]wire.Member, error) {
	switch status {
	case protocol.TaskInputRequired:
		t.fetch(to, params)
		t.awaitQuestion(ctx)
	case protocol.TaskCompleted, protocol.TaskFailed:
		return t.outcome(ctx, to, params)
	case protocol.TaskCancelled:
		return nil, nil
	case protocol.TaskWorking:
	default:
		return nil, fmt.Errorf("its status is %.64q", status)
	}
	requests, _ := t.open()
	if requests == nil {
		return []wire.Member{{Name: "status", Value: wire.Quote(string(protocol.TaskWorking))}}, nil
	}
	return []wire.Member{
		{Name: "status", Value: wire.Quote(string(protocol.TaskInputRequired))}, {Name: "inputRequests", Value: requests},
	}, nil
}

// awaitQuestion waits until questions arrive, though not long.
func (t *bridgedTask) awaitQuestion(ctx context.Context) {
	timer := time.NewTimer(questionWait)
	defer timer.Stop()
	for waited := false; ; waited = true {
		requests, fresh := t.open()
		if requests != nil && waited {
			_ = pause(ctx, gatherWait)
		}
		if requests != nil {
			return
		}
		select {
		case <-fresh:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// fetch asks for the result of the task in the background, since the upstream asks the client in
// answer to this request (revision 2025-11-25, basic/utilities/tasks, "Input Required Status"). The
// result is asked for again when the task has ended.
func (t *bridgedTask) fetch(to serverConn, params []byte) {
	ctx, cancel := context.WithTimeoutCause(t.router.ctx, taskWait, errTaskWait)
	t.mu.Lock()
	begun := t.stop != nil
	if !begun {
		t.stop = cancel
	}
	t.mu.Unlock()
	if begun {
		cancel()
		return
	}
	t.router.inBackground(func() {
		defer cancel()
		t.request(ctx, to, protocol.MethodTasksResult, params)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stop = nil
		t.changedLocked()
	})
}

// outcome returns the result or error of an ended task. The presence of a result or of an error
// decides the status: the result of a failed tool is a result.
func (t *bridgedTask) outcome(ctx context.Context, to serverConn, params []byte) ([]wire.Member, error) {
	reply := t.request(ctx, to, protocol.MethodTasksResult, params)
	if reply.Error != nil {
		switch bad := wire.ParseError(reply.Error); bad.Code {
		case protocol.CodeURLElicitationRequired: // the page can no longer be asked for
			reply = changeCode(reply, wire.CodeInternal)
		default:
			reply = t.router.adaptError(Call{Method: protocol.MethodToolsCall, Origin: t}, reply, true)
		}
		return []wire.Member{{Name: "status", Value: wire.Quote(string(protocol.TaskFailed))}, {Name: "error", Value: reply.Error}}, nil
	}
	result, err := envelope.FromHandshake(reply.Result)
	if err == nil {
		result, err = withoutRelated(result)
	}
	if err != nil {
		return nil, err
	}
	return []wire.Member{{Name: "status", Value: wire.Quote(string(protocol.TaskCompleted))}, {Name: "result", Value: result}}, nil
}

// update passes the client's answers on.
func (t *bridgedTask) update(ctx context.Context, call Call, to serverConn, params []byte) wire.Reply {
	raw, _ := wire.Get(call.Params, "inputResponses")
	all, ok := wire.Members(raw)
	if !ok {
		return fail(wire.CodeInvalidParams, "%s: params.inputResponses must be an object", call.Method)
	}
	taken, bad := t.answer(all)
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	if taken == 0 { // does the task exist?
		if reply := t.request(ctx, to, protocol.MethodTasksGet, params); reply.Error != nil {
			t.router.bridged.forget(t)
			return reply
		}
	}
	return empty()
}

// cancel tells the upstream that the client no longer needs the task. A task that has ended needs
// no cancellation; servers of the handshake era answer with an error then.
func (t *bridgedTask) cancel(ctx context.Context, to serverConn, params []byte) wire.Reply {
	reply := t.request(ctx, to, protocol.MethodTasksCancel, params)
	if reply.Error == nil {
		t.changed()
		return empty()
	}
	task := t.request(ctx, to, protocol.MethodTasksGet, params)
	status, ok := wire.GetString(task.Result, "status")
	if ok && hasEnded(protocol.TaskStatus(status)) {
		return empty()
	}
	return reply
}
