package front

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// maxTasks bounds the requests to one client that were answered with a task
// and are kept for the progress of that; the oldest is forgotten first.
const maxTasks = 1000

// ask is a request to the client.
type ask struct {
	id   int64
	call wire.Call
	out  Stream // on which it went out
	done chan answer

	mu   sync.Mutex // held during call.Progress, so that none comes after the answer
	over bool       // nothing more of it is wanted
	task string     // id of the task that was the answer
}

// answer is what came of an ask.
type answer struct {
	reply wire.Reply
	err   error
}

// Ask implements route.Origin.
func (s *Session) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return s.ask(ctx, s.main, call)
}

func (s *Session) ask(ctx context.Context, out Stream, call wire.Call) (wire.Reply, error) {
	a := &ask{call: call, out: out, done: make(chan answer, 1)}
	s.mu.Lock()
	s.lastAsk++
	a.id = s.lastAsk
	s.asks[a.id] = a
	s.mu.Unlock()
	defer s.forget(a)
	params, err := withToken(call.Params, a.id, call.Progress != nil)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := s.sendRequest(ctx, a, wire.Request(a.id, call.Method, params)); err != nil {
		return wire.Reply{}, err
	}
	select {
	case got := <-a.done:
		return got.reply, got.err
	case <-s.ctx.Done():
		return wire.Reply{}, wire.ErrClosed
	case <-ctx.Done():
		cause := context.Cause(ctx)
		s.write(out, wire.Notification(protocol.NotificationCancelled, wire.CancelParams(cause, a.id)))
		return wire.Reply{}, cause
	}
}

// sendRequest takes a request to the client, on the session's own stream where
// the one of the request that it belongs to has been closed meanwhile.
func (s *Session) sendRequest(ctx context.Context, a *ask, msg []byte) error {
	err := a.out.Request(ctx, msg)
	if errors.Is(err, ErrStreamClosed) && a.out != s.main {
		s.mu.Lock()
		a.out = s.main
		s.mu.Unlock()
		err = s.main.Request(ctx, msg)
	}
	switch {
	case err == nil || errors.Is(err, ErrNotListening):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return errors.Join(wire.ErrClosed, err)
}

func withToken(params []byte, id int64, want bool) ([]byte, error) {
	if want {
		return wire.Set(params, strconv.AppendInt(nil, id, 10), "_meta", "progressToken")
	}
	if params == nil {
		return nil, nil
	}
	return wire.Delete(params, "_meta", "progressToken")
}

// forget ends an ask, unless its answer was a task whose progress is wanted.
func (s *Session) forget(a *ask) {
	a.mu.Lock()
	task := a.task
	if task == "" {
		a.over = true
	}
	a.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if task == "" {
		delete(s.asks, a.id)
		return
	}
	s.tasks = append(s.tasks, a)
	if len(s.tasks) > maxTasks {
		delete(s.asks, s.tasks[0].id)
		s.tasks = slices.Delete(s.tasks, 0, 1)
	}
}

// asked finds the request to the client with the raw id or token.
func (s *Session) asked(raw []byte) *ask {
	id, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks[id]
}

// answered takes the client's answer to a request of ours.
func (s *Session) answered(msg wire.Message) {
	a := s.asked(msg.ID)
	if a == nil {
		s.opts.Log.Debug("client answered a request that is not in flight", "id", string(msg.ID))
		return
	}
	a.resolve(answer{reply: wire.Reply{Result: msg.Result, Error: msg.Error}})
	if a.call.Method == protocol.MethodTasksResult || a.call.Method == protocol.MethodTasksCancel {
		task, _ := wire.GetString(a.call.Params, "taskId")
		s.taskEnded(task)
	}
}

// answeredBadly takes an answer that is no JSON-RPC 2.0 response.
func (s *Session) answeredBadly(id []byte, err *wire.RPCError) {
	if a := s.asked(id); a != nil {
		bad := wire.Errorf(wire.CodeInternal, "the client's answer is malformed: %s", err.Message)
		a.resolve(answer{reply: wire.Reply{Error: bad.Raw()}})
	}
}

// abandonAsks fails the requests to the client that went out on a stream which
// it has gone away from.
func (s *Session) abandonAsks(out Stream) {
	s.mu.Lock()
	var gone []*ask
	for _, a := range s.asks {
		if a.out == out {
			gone = append(gone, a)
		}
	}
	s.mu.Unlock()
	for _, a := range gone {
		a.resolve(answer{err: ErrClientGone})
	}
}

// resolve takes the first answer. Progress that comes behind it is dropped,
// unless it is a task that goes on.
func (a *ask) resolve(got answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.task != "" {
		return // a second answer, or nobody waits
	}
	if id, ok := taskOf(got.reply.Result); ok && a.call.Progress != nil {
		a.task = id
	} else {
		a.over = true
	}
	a.done <- got
}

// clientProgress takes progress of the client on a request of ours.
func (s *Session) clientProgress(params []byte) {
	token, _ := wire.Get(params, "progressToken")
	if a := s.asked(token); a == nil || !a.progress(params) {
		s.opts.Log.Debug("progress of the client on no request in flight", "token", string(token))
	}
}

func (a *ask) progress(params []byte) (wanted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.call.Progress == nil {
		return false
	}
	a.call.Progress(params)
	return true
}

// taskStatus handles notifications/tasks/status of the client (2025-11-25,
// basic/utilities/tasks).
func (s *Session) taskStatus(params []byte) {
	switch status, _ := wire.GetString(params, "status"); status {
	case "completed", "failed", "cancelled":
		task, _ := wire.GetString(params, "taskId")
		s.taskEnded(task)
	}
}

// taskEnded forgets the request to the client that was answered with the task.
func (s *Session) taskEnded(task string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = slices.DeleteFunc(s.tasks, func(a *ask) bool {
		if a.task != task { // does not change any more
			return false
		}
		delete(s.asks, a.id)
		return true
	})
}
