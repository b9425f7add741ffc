package upstream

import (
	"bytes"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// maxTasks bounds the tasks of one connection whose progress is still passed
// on. Beyond it the oldest one loses its token.
const maxTasks = 1024

// taskTokens keeps the progress tokens of calls that were answered with a
// task: such a token stays good until the task has ended (revision 2025-11-25,
// basic/utilities/progress). The zero value is ready. It is safe for
// concurrent use, and its lock is a leaf.
type taskTokens struct {
	mu     sync.Mutex
	tasks  []task // oldest first
	tokens map[int64]func(params []byte)
}

type task struct {
	id    string // of the server
	token int64
}

// asksForTask tells whether params ask for a task, so that an answer to them
// may have to be shown to begin.
func asksForTask(params []byte) bool {
	if !bytes.Contains(params, []byte(`"task"`)) {
		return false
	}
	_, ok := wire.Get(params, "task")
	return ok
}

// begin keeps progress under token if result is a task that goes on. The
// caller does it before it takes the token away from the call.
func (t *taskTokens) begin(token int64, progress func(params []byte), result []byte) {
	created, ok := wire.Get(result, "task")
	if !ok {
		return
	}
	id, ok := wire.GetString(created, "taskId")
	if status, _ := wire.GetString(created, "status"); !ok || terminal(status) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.tasks) == maxTasks {
		delete(t.tokens, t.tasks[0].token)
		t.tasks = t.tasks[1:]
	}
	if t.tokens == nil {
		t.tokens = make(map[int64]func([]byte))
	}
	t.tasks = append(t.tasks, task{id, token})
	t.tokens[token] = progress
}

// progress is the taker of progress for token, or nil.
func (t *taskTokens) progress(token int64) func(params []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tokens[token]
}

// notified looks at a notification of the server.
func (t *taskTokens) notified(method string, params []byte) {
	if method == protocol.NotificationTaskStatus {
		t.status(params)
	}
}

// answered looks at the answer to a request of ours. params are those of the
// request; they and the reply are only read for the methods of tasks.
func (t *taskTokens) answered(method string, params []byte, reply wire.Reply) {
	switch method {
	case protocol.MethodTasksResult: // answered when the task has ended, or is not known
		id, _ := wire.GetString(params, "taskId")
		t.end(id)
	case protocol.MethodTasksGet, protocol.MethodTasksCancel:
		if reply.Error == nil {
			t.status(reply.Result)
		}
	}
}

// status takes a task object of the server.
func (t *taskTokens) status(object []byte) {
	if status, _ := wire.GetString(object, "status"); terminal(status) {
		id, _ := wire.GetString(object, "taskId")
		t.end(id)
	}
}

// end takes the tokens of a task away.
func (t *taskTokens) end(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.tasks[:0]
	for _, task := range t.tasks {
		if task.id == id {
			delete(t.tokens, task.token)
		} else {
			kept = append(kept, task)
		}
	}
	clear(t.tasks[len(kept):])
	t.tasks = kept
}

func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}
