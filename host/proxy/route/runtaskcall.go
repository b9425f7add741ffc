package route

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// runTaskRequest answers a request about a task of ours: the task of run, with the id known to the
// client. home is another replica that has begun the run, "" for none.
func (r *Router) runTaskRequest(ctx context.Context, call Call, run, id, home string) wire.Reply {
	t, err := r.findRunTask(ctx, call.Origin.Session(), run)
	switch {
	case errors.Is(err, ErrNoRun) && home != "":
		return r.lost(call.Method, home, "the run of this task")
	case errors.Is(err, ErrNoRun):
		return fail(wire.CodeInvalidParams, "%s: there is no such task", call.Method)
	case errors.Is(err, ErrStoreAway): // clients ask again and again
		r.Log.Debug("a task could not be read from the journal", "run", run, "err", err)
		return fail(wire.CodeInternal, "%s: the record of this task is in the store of the fleet, which is not available now (try again later)", call.Method)
	case err != nil:
		r.warn(ctx, err, "a task could not be read from the journal", "run", run)
		return fail(wire.CodeInternal, "%s: the journal cannot be read", call.Method)
	}
	switch call.Method {
	case protocol.MethodTasksUpdate:
		if bad := t.update(call); bad != nil {
			return wire.Reply{Error: bad.Raw()}
		}
	case protocol.MethodTasksCancel:
		t.cancelRun()
	default:
		return wire.Reply{Result: t.describe(envelope.TypeComplete, id), Own: true}
	}
	return empty()
}

// update takes answers of the client. When no question is open, a new run continues the run with
// the questions.
func (t *runTask) update(call Call) *wire.RPCError {
	raw, _ := wire.Get(call.Params, "inputResponses")
	all, ok := wire.Members(raw)
	if !ok {
		return wire.Errorf(wire.CodeInvalidParams, "%s: params.inputResponses must be an object", call.Method)
	}
	for _, m := range all {
		if !wire.IsObject(m.Value) {
			return wire.Errorf(wire.CodeInvalidParams, "%s: the answer %q must be an object", call.Method, m.Name)
		}
	}
	responses, complete, err := t.collect(all)
	if err != nil {
		return wire.Errorf(wire.CodeInternal, "%s: %s", call.Method, limits.Explain(err))
	}
	if !complete {
		t.tell()
		return nil
	}
	return t.resume(call, responses)
}

// collect adds answers to open questions. If no question remains open, the task is working from now
// on, and responses are all answers by the names that the run gave the questions. The error reports
// missing memory for the answers.
func (t *runTask) collect(answers []wire.Member) (responses []byte, complete bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != protocol.TaskInputRequired {
		return nil, false, nil
	}
	given := map[string][]byte{}
	for _, m := range answers {
		given[m.Name] = m.Value
	}
	var all wire.Object
	complete = true
	for _, q := range t.questions {
		if value, ok := given[q.Name]; ok && t.answers[q.Name] == nil {
			if err := t.kept.Add(len(value)); err != nil {
				return nil, false, err
			}
			t.answers[q.Name] = bytes.Clone(value)
		}
		if t.answers[q.Name] == nil {
			complete = false
			continue
		}
		all.Raw(q.Name[len(t.prefix()):], t.answers[q.Name])
	}
	return all.Bytes(), complete, nil
}

// resume starts the run that continues the last run.
func (t *runTask) resume(call Call, responses []byte) *wire.RPCError {
	r := t.router
	if err := r.runTasks.add(t); err != nil {
		return wire.Errorf(wire.CodeInternal, "%s: %v", call.Method, err)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	t.mu.Lock()
	last := t.last
	open := t.status == protocol.TaskInputRequired
	if open {
		t.recorded, t.status, t.changed, t.cancel = false, protocol.TaskWorking, time.Now(), cancel
		t.refused = true
		t.runs++
		t.questions, t.answers, t.given = nil, nil, len(responses)
		_ = t.kept.Set(t.size())
	}
	t.mu.Unlock()
	if !open { // another request was faster
		cancel(nil)
		return nil
	}
	again := Call{Method: protocol.MethodToolsCall, Origin: call.Origin, Params: t.params, Resume: &Resume{Run: last, Responses: responses}}
	again.Began = func(string, time.Time) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.refused = false
	}
	t.tell()
	t.follow(call.Origin.Session(), r.start(ctx, cancel, t.kind, t.name, again))
	return nil
}

// cancelRun ends the run of the task, or the task if waiting for the client. A run of another
// process goes on, unless durable.
func (t *runTask) cancelRun() {
	t.mu.Lock()
	cancel := t.cancel
	t.cancelled = t.cancelled || cancel != nil
	t.mu.Unlock()
	if cancel != nil {
		cancel(errTaskCancelled)
		return
	}
	if t.isElsewhere() {
		t.cancelElsewhere()
		return
	}
	t.abandon()
}

// cancelElsewhere asks for the end of the run of the task if the run is durable.
func (t *runTask) cancelElsewhere() {
	if err := t.router.Runs.CancelRun(t.root); err != nil && !errors.Is(err, ErrNoRun) {
		t.router.Log.Warn("a task was not cancelled", "run", t.root, "err", err)
	}
}

// watchRunTask is WatchTask for a task of ours.
func (r *Router) watchRunTask(ctx context.Context, s Session, run, id string) (stop func(), ok bool) {
	t, err := r.findRunTask(ctx, s, run)
	if err != nil {
		return nil, false
	}
	if t.isElsewhere() {
		return r.watchRecorded(ctx, s, run, id)
	}
	key, who := watchKey{id: run}, watcher{s, id}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false
	}
	w := r.watched[key]
	if w == nil {
		w = &taskWatch{cancel: func() {}, watchers: map[watcher]int{}}
		r.watched[key] = w
	}
	w.watchers[who]++
	return func() { r.removeWatcher(key, w, who) }, true
}

// isElsewhere reports whether the task runs in another process.
func (t *runTask) isElsewhere() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.recorded && t.status == protocol.TaskWorking
}
