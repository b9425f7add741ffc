package mcptest

import (
	"fmt"

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
