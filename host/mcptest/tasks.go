package mcptest

import (
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// task is a call of the tool "task" that runs as a task (revision 2025-11-25,
// basic/utilities/tasks). Only status changes; the server's mutex guards status.
type task struct {
	id       string
	token    []byte // progress token of the request; nil if absent
	params   []byte
	status   string
	finished chan struct{}
}

// related returns the _meta member that names the task of a message.
func (t *task) related() string {
	return fmt.Sprintf(`"io.modelcontextprotocol/related-task":{"taskId":%q,"x":1.0}`, t.id)
}

// object returns the task in the form for results and notifications.
func (t *task) object() string {
	return fmt.Sprintf(`"taskId":%q,"status":%q,"statusMessage":"\u00e9","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:40:00Z","ttl":9007199254740993,"pollInterval":5,"x":1.0`, t.id, t.status)
}

// callTask makes the call a task if the client asked for one.
func (c *call) callTask() wire.Reply {
	if _, ok := wire.Get(c.msg.Params, "task"); !ok {
		return result(`{"content":[],"received":%s}`, c.msg.Params)
	}
	token, _ := wire.Get(c.msg.Params, "_meta", "progressToken")
	c.progress(1, `,"message":"accepted"`)
	s := c.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &task{id: fmt.Sprintf("task-%d", len(s.tasks)+1), token: token, params: c.msg.Params, status: "working", finished: make(chan struct{})}
	s.tasks = append(s.tasks, t)
	return result(`{"task":{%s},"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon","n":9007199254740993},"x":1e400}`, t.object())
}

// stepTask runs the tool "task-step": {taskId, step}. A step is "progress",
// "status", or a status with which the task ends.
func (c *call) stepTask() wire.Reply {
	t := c.srv.task(c.text("taskId"))
	if t == nil {
		return rpcError(wire.CodeInvalidParams, "unknown task")
	}
	switch step := c.text("step"); step {
	case "progress":
		if t.token != nil {
			c.general.send(wire.Notification("notifications/progress",
				fmt.Appendf(nil, `{"progressToken":%s,"progress":%s,"_meta":{%s}}`, t.token, c.argument("n"), t.related())), false)
		}
	case "status":
		c.notifyStatus(t)
	default:
		c.srv.finish(t, step)
		c.notifyStatus(t)
	}
	return result(`{"content":[]}`)
}

// notifyStatus sends the status of the task.
func (c *call) notifyStatus(t *task) {
	c.srv.mu.Lock()
	params := fmt.Appendf(nil, `{%s,"_meta":{%s}}`, t.object(), t.related())
	c.srv.mu.Unlock()
	c.general.send(wire.Notification("notifications/tasks/status", params), false)
}

func (s *Server) task(id string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t.id == id {
			return t
		}
	}
	return nil
}

// finish ends a task, and returns false if the task had already ended.
func (s *Server) finish(t *task, status string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.status != "working" {
		return false
	}
	t.status = status
	close(t.finished)
	return true
}

func (c *call) taskMethod() wire.Reply {
	s := c.srv
	if c.msg.Method == "tasks/list" {
		return s.listTasks()
	}
	id, _ := wire.GetString(c.msg.Params, "taskId")
	t := s.task(id)
	if t == nil {
		return rpcError(wire.CodeInvalidParams, "Failed to retrieve task: Task not found")
	}
	switch c.msg.Method {
	case "tasks/cancel":
		if !s.finish(t, "cancelled") {
			return rpcError(wire.CodeInvalidParams, "Cannot cancel task: already in terminal status")
		}
	case "tasks/result":
		select {
		case <-t.finished:
		case <-c.cancelled:
			return wire.Reply{}
		}
		return result(`{"content":[{"type":"hologram","n":1e400}],"isError":false,"_meta":{%s,"n":9007199254740993},"received":%s}`, t.related(), t.params)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return result(`{%s,"_meta":{"n":9007199254740993}}`, t.object())
}

func (s *Server) listTasks() wire.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list string
	for i, t := range s.tasks {
		if i > 0 {
			list += ","
		}
		list += "{" + t.object() + "}"
	}
	return result(`{"tasks":[%s],"_meta":{"n":1.0}}`, list)
}

// This file has the tasks of the extension (github.com/modelcontextprotocol/ext-tasks,
// specification/draft/tasks.md), which only the stateless era has.

// TaskExtension is the name of the extension.
const TaskExtension = "io.modelcontextprotocol/tasks"

// extended is a call of the tool "task" that has become a task. The server's mutex guards extended.
type extended struct {
	id      string
	members string // the status, and the members that the status requires
}

const firstStatus = `"status":"working"`

// object returns the members of the task.
func (t *extended) object() string {
	return fmt.Sprintf(`"taskId":%q,%s,"createdAt":"2026-08-01T10:30:00Z","lastUpdatedAt":"2026-08-01T10:40:00Z","ttlMs":null,"pollIntervalMs":1,"x":1.0`, t.id, t.members)
}

// callExtended answers the tool "task" of the stateless era: {required}. The call becomes a task
// for clients that declare the extension. If required is set, other clients are refused.
func (c *call) callExtended() wire.Reply {
	if _, ok := wire.Get(c.msg.Params, "_meta", metaCapabilities, "extensions", TaskExtension); !ok {
		if c.argument("required") != nil {
			return undeclared()
		}
		return c.legacy()
	}
	s := c.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &extended{fmt.Sprintf("ext-%d", len(s.extended)+1), firstStatus}
	s.extended = append(s.extended, t)
	return result(`{"resultType":"task",%s,"_meta":{"n":9007199254740993}}`, t.object())
}

func undeclared() wire.Reply {
	return wire.Reply{Error: fmt.Appendf(nil, `{"code":-32021,"message":"tasks needed","data":{"requiredCapabilities":{"extensions":{%q:{}}}}}`, TaskExtension)}
}

// extendedMethod answers tasks/get, tasks/update and tasks/cancel. The answers to all questions of
// a task complete the task.
func (c *call) extendedMethod() wire.Reply {
	if _, ok := wire.Get(c.msg.Params, "_meta", metaCapabilities, "extensions", TaskExtension); !ok {
		return undeclared()
	}
	id, _ := wire.GetString(c.msg.Params, "taskId")
	s := c.srv
	s.mu.Lock()
	i := slices.IndexFunc(s.extended, func(t *extended) bool { return t.id == id })
	if i < 0 {
		s.mu.Unlock()
		return rpcError(wire.CodeInvalidParams, "Failed to retrieve task: Task not found")
	}
	object := s.extended[i].object()
	s.mu.Unlock()
	switch c.msg.Method {
	case "tasks/update":
		answers, _ := wire.Get(c.msg.Params, "inputResponses")
		s.SetTask(id, fmt.Sprintf(`"status":"completed","result":{"content":[],"answers":%s}`, answers))
		return result(`{"x":1.0}`)
	case "tasks/cancel":
		s.SetTask(id, `"status":"cancelled"`)
		return result(`{"x":1.0}`)
	}
	return result(`{%s}`, object)
}

// SetTask changes a task and notifies the task's subscriptions. members are the status and its
// members, such as `"status":"completed","result":{}`.
func (s *Server) SetTask(id, members string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.extended {
		if t.id != id {
			continue
		}
		t.members = members
		for _, l := range s.listeners {
			if slices.Contains(l.tasks, id) {
				l.call.notify("notifications/tasks", []byte("{"+t.object()+","+l.tag()+"}"))
			}
		}
	}
}
