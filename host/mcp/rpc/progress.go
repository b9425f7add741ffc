package rpc

import (
	"bytes"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// progress handles a progress notification of the peer.
func (c *Conn) progress(params []byte) {
	token, _ := wire.Get(params, "progressToken")
	id, _ := c.state.ids.ofToken(token)
	c.mu.Lock()
	p, late := c.state.beginProgress(id, c.progressReturned)
	task := p != nil && p.task != ""
	c.mu.Unlock()
	if p == nil || task || len(params) > smallSize {
		// Progress of a task is charged too, because a task may last forever, and large
		// notifications, because the client may read slowly.
		c.charge(len(params))
	}
	if p == nil {
		if late != nil {
			late("progress")
		}
		c.log.Debug("progress for no request in flight dropped", "token", excerpt(string(token)))
		return
	}
	p.progress(params)
	c.mu.Lock()
	deliver := c.state.endProgress(p, time.Now())
	o := p.outcome
	c.progressReturned.Broadcast()
	c.mu.Unlock()
	if deliver {
		c.deliver(p, o)
	}
}

// asksForTask reports whether params ask for a task.
func asksForTask(params []byte) bool {
	if !bytes.Contains(params, []byte(`"task"`)) {
		return false
	}
	_, ok := wire.Get(params, "task")
	return ok
}

func isTaskMethod(method string) bool {
	return method == protocol.MethodTasksResult || method == protocol.MethodTasksGet || method == protocol.MethodTasksCancel
}

// ongoingTask returns the id of the task in a result, "" for a result without a task or with an
// ended task.
func ongoingTask(result []byte) string {
	if !bytes.Contains(result, []byte(`"taskId"`)) { // most results are not tasks, and they may be large
		return ""
	}
	created, ok := wire.Get(result, "task")
	if !ok {
		return ""
	}
	if status, _ := wire.GetString(created, "status"); terminal(status) {
		return ""
	}
	id, _ := wire.GetString(created, "taskId")
	return id
}

func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// taskAnswered handles the answer to a request about a task.
func (c *Conn) taskAnswered(method string, params []byte, reply wire.Reply) {
	if method == protocol.MethodTasksResult { // answered when the task has ended or is unknown
		id, _ := wire.GetString(params, "taskId")
		c.endTask(id)
	} else if reply.Error == nil {
		c.taskStatus(reply.Result)
	}
}

// taskStatus handles a task object of the peer.
func (c *Conn) taskStatus(object []byte) {
	if status, _ := wire.GetString(object, "status"); terminal(status) {
		id, _ := wire.GetString(object, "taskId")
		c.endTask(id)
	}
}

func (c *Conn) endTask(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.endTask(id)
}
