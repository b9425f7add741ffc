package route

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Bounds of waiting for a task in place of a caller.
const (
	taskWait    = time.Hour // for the end of the task
	minPoll     = 50 * time.Millisecond
	usualPoll   = time.Second // if the server names no interval
	maxPoll     = 30 * time.Second
	maxMissed   = 3                // polls in a row without an answer
	cancelLimit = 10 * time.Second // for telling the server that no caller waits
)

var errTaskWait = fmt.Errorf("its task did not end within %v", taskWait)

// taskWaiter waits for the result of a task.
type taskWaiter struct {
	call     *toolCall
	bridge   bridge
	id       string          // the upstream's
	answered map[string]bool // names of questions
	rounds   int             // of questions
}

// await returns the result of a task that an upstream has made of the call. task is the upstream's
// answer. Without a result, no caller needs the task, and the task is cancelled.
func (c *toolCall) await(ctx context.Context, task []byte) (wire.Reply, error) {
	id, ok := wire.GetString(task, "taskId")
	if !ok {
		return wire.Reply{}, fmt.Errorf("upstream %q answered with a task that has no id", c.server)
	}
	c.waits = true
	w := &taskWaiter{call: c, id: id, answered: map[string]bool{}, bridge: bridge{origin: c.origin, server: c.server, budget: c.router.Budget}}
	defer w.bridge.end()
	ctx, cancel := context.WithTimeoutCause(ctx, taskWait, errTaskWait)
	defer cancel()
	for {
		err := pause(ctx, pollInterval(task))
		if err == nil {
			task, err = w.poll(ctx)
		}
		if err == nil {
			var reply wire.Reply
			var ended bool
			if reply, ended, err = w.outcome(ctx, task); ended {
				return reply, err
			}
		}
		if err != nil {
			w.abandon()
			return wire.Reply{}, err
		}
	}
}

// pollInterval returns how long to wait before a task is asked for again.
func pollInterval(task []byte) time.Duration {
	raw, _ := wire.Get(task, "pollIntervalMs")
	ms, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return usualPoll
	}
	return min(max(time.Duration(min(ms, 1e6))*time.Millisecond, minPoll), maxPoll)
}

// outcome returns the reply of an ended task. If the task asks the client, outcome asks the client,
// and tells the upstream the answers.
func (w *taskWaiter) outcome(ctx context.Context, task []byte) (reply wire.Reply, ended bool, err error) {
	status, _ := wire.GetString(task, "status")
	if err := wire.ExtensionTaskShape.Check(task); err != nil { // the result of the task goes to the caller
		return wire.Reply{}, true, fmt.Errorf("upstream %q: the task of this call: %w", w.call.server, err)
	}
	switch protocol.TaskStatus(status) {
	case protocol.TaskWorking:
		return wire.Reply{}, false, nil
	case protocol.TaskInputRequired:
		return wire.Reply{}, false, w.answer(ctx, task)
	case protocol.TaskCompleted:
		if result, ok := wire.Get(task, "result"); ok && wire.IsObject(result) {
			return wire.Reply{Result: result, Stateless: true}, true, nil
		}
	case protocol.TaskFailed:
		if bad, ok := wire.Get(task, "error"); ok && wire.IsObject(bad) {
			return wire.Reply{Error: bad, Stateless: true}, true, nil
		}
	case protocol.TaskCancelled:
		return wire.Reply{}, true, fmt.Errorf("upstream %q has cancelled the task of this call", w.call.server)
	}
	return wire.Reply{}, true, fmt.Errorf("upstream %q: the task of this call has status %.64q, but no outcome of it", w.call.server, status)
}

// answer asks the client the new questions of the task.
func (w *taskWaiter) answer(ctx context.Context, task []byte) error {
	raw, _ := wire.Get(task, "inputRequests")
	all, ok := wire.Members(raw)
	if !ok {
		return &inputError{fmt.Sprintf("upstream %q asks the client something, but its task is malformed", w.call.server)}
	}
	var open []wire.Member
	for _, m := range all {
		if !w.answered[m.Name] {
			open = append(open, m)
		}
	}
	switch w.rounds++; {
	case len(open) == 0: // the upstream has not taken the answers into account yet
		w.rounds--
		return nil
	case len(open) > maxQuestions:
		return &inputError{fmt.Sprintf("upstream %q asks the client %d things at once (%d are allowed)", w.call.server, len(open), maxQuestions)}
	case w.rounds > maxRounds:
		return &inputError{fmt.Sprintf("upstream %q asked the client something %d times in one task, and still asks", w.call.server, maxRounds)}
	}
	for _, m := range open {
		if err := w.bridge.check(m.Value); err != nil {
			return err
		}
	}
	answers, err := w.bridge.ask(ctx, open)
	if err != nil {
		return err
	}
	for _, m := range open {
		w.answered[m.Name] = true
	}
	params := w.params()
	params.Raw("inputResponses", answers)
	reply, err := w.request(ctx, protocol.MethodTasksUpdate, params.Bytes())
	if err == nil && reply.Error != nil {
		err = fmt.Errorf("upstream %q refuses the answers to its questions: %s", w.call.server, wire.ParseError(reply.Error).Message)
	}
	return err
}

// poll returns the current task. The upstream may have to start again meanwhile.
func (w *taskWaiter) poll(ctx context.Context) (task []byte, err error) {
	for range maxMissed {
		params := w.params()
		reply, failed := w.request(ctx, protocol.MethodTasksGet, params.Bytes())
		switch {
		case errors.Is(failed, errNoRights):
			return nil, failed
		case failed == nil && reply.Error == nil:
			return reply.Result, nil
		case failed == nil:
			return nil, fmt.Errorf("upstream %q does not find the task of this call: %s", w.call.server, wire.ParseError(reply.Error).Message)
		}
		if err = failed; pause(ctx, usualPoll) != nil {
			break
		}
	}
	return nil, err
}

func (w *taskWaiter) params() *wire.Object {
	params := new(wire.Object)
	params.Text("taskId", w.id)
	return params
}

// request makes a request about the task. If the client no longer has rights, only tasks/cancel is
// sent.
func (w *taskWaiter) request(ctx context.Context, method string, params []byte) (wire.Reply, error) {
	c := w.call
	to, ok := c.router.to(sessionOf(c.origin), c.server)
	if !ok {
		return wire.Reply{}, fmt.Errorf("upstream %q is not configured", c.server)
	}
	out := wire.Call{Method: method, Params: params}
	if method != protocol.MethodTasksCancel {
		out.Permit = present{sessionOf(c.origin)}
	}
	c.router.onBehalf(&out, c.origin)
	out.Client = declareTasks(out.Client)
	reply, err := to.Call(ctx, out)
	return reply, c.unattended(err)
}

// unattended returns the error of a request about a task that the call has created. A forbidden
// request about the task does not mean that the call was not made.
func (c *toolCall) unattended(err error) error {
	if errors.Is(err, errNoRights) {
		return fmt.Errorf("upstream %q: the task of this call is not waited for: %w", c.server, errNoRights)
	}
	return err
}

// abandon tells the upstream that no caller needs the task now, without waiting.
func (w *taskWaiter) abandon() {
	r := w.call.router
	r.inBackground(func() {
		ctx, cancel := context.WithTimeout(r.ctx, cancelLimit)
		defer cancel()
		params := w.params()
		if _, err := w.request(ctx, protocol.MethodTasksCancel, params.Bytes()); err != nil {
			r.warn(ctx, err, "a task could not be cancelled", "upstream", w.call.server)
		}
	})
}
