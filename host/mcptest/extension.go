package mcptest

import (
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
