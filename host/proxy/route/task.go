package route

import (
	"context"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// Tasks (revision 2025-11-25, basic/utilities/tasks) keep the ids given by their creators; the
// router remembers the session of each task. A session reaches only its own tasks, but an only
// session also reaches tasks that are not remembered, perhaps from an earlier session.

// taskOf returns the id of the task created for a request, if params asked for a task and the reply
// names a task.
func taskOf(params []byte, reply wire.Reply) (id string, ok bool) {
	if _, asked := wire.Get(params, "task"); !asked || reply.Result == nil {
		return "", false
	}
	return wire.GetString(reply.Result, "task", "taskId")
}

// rememberTask remembers the session of a task. A status of the task that has arrived before is
// sent to the session.
func (r *Router) rememberTask(s Session, t taskKey) {
	if status := r.takeTask(s, t); status != nil {
		s.Notify(protocol.NotificationTaskStatus, status)
	}
}

// takeTask remembers the session of a task. early is a status of the task that has arrived before
// and must be sent to the session; nil for none. An upstream that gives a task the id of another
// upstream's task does not get the requests for the other task.
func (r *Router) takeTask(s Session, t taskKey) (early []byte) {
	var taken bool
	var owner string
	r.with(s, func(c *client) {
		if owner, taken = c.tasks.get(t.id); taken && owner != t.server {
			return
		}
		keep(&c.tasks, t.id, t.id, t.server)
		early, _ = r.early.take(t)
	})
	if taken && owner != t.server {
		r.Log.Warn("a task cannot be reached: another server has a task with the same id", "server", t.server, "other", owner)
	}
	return early
}

// taskSession returns the session with a task of an upstream, nil for none.
func (r *Router) taskSession(server, id string) Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holder(taskKey{server, id})
}

// holder is taskSession for a caller that holds r.mu.
func (r *Router) holder(t taskKey) Session {
	for s, c := range r.clients {
		if server, ok := c.tasks.get(t.id); ok && server == t.server {
			return s
		}
	}
	return nil
}

// taskReader returns the session that gets a status of a task: the session with the task, or else
// the only session. Otherwise taskReader returns nil and keeps the status, since the response that
// creates the task may not have been handled yet.
func (r *Router) taskReader(t taskKey, status []byte) Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.holder(t); s != nil {
		return s
	}
	if len(r.clients) == 1 {
		for s := range r.clients {
			return s
		}
	}
	keepStatus(&r.early, t, t.id, status)
	return nil
}

// task forwards a request about a task to the upstream that runs the task.
func (r *Router) task(ctx context.Context, call Call) wire.Reply {
	id, bad := stringParam(call, "taskId")
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	s := call.Origin.Session()
	server, known := "", false
	r.with(s, func(c *client) { server, known = c.tasks.get(id) })
	if known {
		if to, ok := r.to(s, server); ok {
			return r.forward(ctx, call, to, call.Params, nil)
		}
	}
	if !r.offered(s, "tasks") {
		return notFound(call.Method)
	}
	if !known && r.alone(s) {
		candidates := r.offering(s, "tasks")
		reply, from, ok := firstOf(ctx, candidates, func(c serverConn) wire.Reply {
			return r.forward(ctx, call, c, call.Params, r.method(call, c))
		})
		if ok {
			r.rememberTask(s, taskKey{from.server, id})
		}
		if ok || len(candidates) == 1 {
			return reply
		}
	}
	return fail(wire.CodeInvalidParams, "%s: this session has no task %q", call.Method, id)
}

// listTasks lists the tasks of the session.
func (r *Router) listTasks(ctx context.Context, call Call) wire.Reply {
	s := call.Origin.Session()
	all := r.offering(s, "tasks", "list")
	switch len(all) {
	case 0:
		if r.told(s, "tasks", "list") {
			return wire.Reply{Result: []byte(`{"tasks":[]}`)}
		}
		return notFound(call.Method)
	case 1:
		return r.ownTasks(s, all[0].server, r.forward(ctx, call, all[0], call.Params, nil))
	}
	if _, ok := wire.Get(call.Params, "cursor"); ok {
		return fail(wire.CodeInvalidParams, "%s: %v", call.Method, catalog.ErrCursor) // we never issue a cursor
	}
	replies := make([]wire.Reply, len(all))
	var asked sync.WaitGroup
	for i, c := range all {
		asked.Go(func() { replies[i] = r.ownTasks(s, c.server, r.allTasks(ctx, call, c)) })
	}
	asked.Wait()
	return joinTasks(all, replies)
}

// ownTasks removes the tasks of other sessions from a list of tasks.
func (r *Router) ownTasks(s Session, server string, reply wire.Reply) wire.Reply {
	if r.alone(s) {
		return reply
	}
	return keepTasks(reply, func(id string) bool {
		return r.taskSession(server, id) == s
	})
}

// keepTasks removes the tasks from a list for which keep is false, and the tasks that two JSON
// readers could interpret differently.
func keepTasks(reply wire.Reply, keep func(id string) bool) wire.Reply {
	raw, ok := wire.Get(reply.Result, "tasks")
	if !ok {
		return reply
	}
	tasks, err := wire.Elements(raw)
	if err != nil {
		return fail(wire.CodeInternal, "tasks/list: malformed answer: %v", err)
	}
	tasks = slices.DeleteFunc(tasks, func(task []byte) bool {
		id, ok := wire.GetString(task, "taskId")
		return !ok || !keep(id) || wire.TaskShape.Check(task) != nil
	})
	result, err := wire.Set(reply.Result, wire.Array(tasks), "tasks")
	if err != nil {
		return fail(wire.CodeInternal, "tasks/list: malformed answer: %v", err)
	}
	return wire.Reply{Result: result}
}

// Bounds of an upstream's list of tasks that is joined with the lists of other upstreams.
const (
	maxTaskPages = 100
	maxListed    = 10_000
	maxTaskBytes = 4 << 20 // of all tasks of an upstream
)

// allTasks returns the first page of an upstream's list of tasks, but with the tasks of
// all pages, and without a cursor.
func (r *Router) allTasks(ctx context.Context, call Call, c serverConn) wire.Reply {
	var first []byte
	var tasks [][]byte
	size := 0
	params := call.Params
	for range maxTaskPages {
		reply := r.forward(ctx, call, c, params, nil)
		if reply.Error != nil {
			return reply
		}
		raw, _ := wire.Get(reply.Result, "tasks")
		page, more, err := wire.FirstElements(raw, maxListed-len(tasks))
		size += len(raw)
		switch {
		case err != nil:
			return fail(wire.CodeInternal, "tasks/list: malformed answer of upstream %q: %v", c.server, err)
		case more:
			return fail(wire.CodeInternal, "tasks/list: upstream %q has more than %d tasks", c.server, maxListed)
		case size > maxTaskBytes:
			return fail(wire.CodeInternal, "tasks/list: the tasks of upstream %q have more than %d bytes", c.server, maxTaskBytes)
		}
		tasks = append(tasks, page...)
		if first == nil {
			first = reply.Result
		}
		cursor, ok := wire.Get(reply.Result, "nextCursor")
		if !ok { // neither edit can fail, since first has been parsed
			first, _ = wire.Delete(first, "nextCursor")
			first, _ = wire.Set(first, wire.Array(tasks), "tasks")
			return wire.Reply{Result: first}
		}
		if params, err = wire.Set(params, cursor, "cursor"); err != nil {
			return fail(wire.CodeInvalidParams, "tasks/list: params: %v", err)
		}
	}
	return fail(wire.CodeInternal, "tasks/list: upstream %q has more than %d pages of tasks", c.server, maxTaskPages)
}

// joinTasks joins several lists of tasks without the failed lists. If all have failed, joinTasks
// returns the first error.
func joinTasks(from []serverConn, replies []wire.Reply) wire.Reply {
	var tasks [][]byte
	var metas []catalog.Part
	for i, reply := range replies {
		if reply.Error != nil {
			continue
		}
		raw, _ := wire.Get(reply.Result, "tasks")
		page, _ := wire.Elements(raw) // allTasks has parsed the list
		tasks = append(tasks, page...)
		meta, _ := wire.Get(reply.Result, "_meta")
		metas = append(metas, catalog.Part{Server: from[i].server, Raw: meta})
	}
	if metas == nil {
		return replies[0]
	}
	var result wire.Object
	result.Raw("tasks", wire.Array(tasks))
	result.Raw("_meta", catalog.MergeMeta(metas))
	return wire.Reply{Result: result.Bytes()}
}
