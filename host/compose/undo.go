package compose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/limits"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// compensations holds the calls that undo what a run did if it fails, in the order in
// which the script registered them. When a saved tool succeeds, its caller takes them
// over.
type compensations struct {
	mu    sync.Mutex
	calls []target
}

func (u *compensations) add(calls []target) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls = append(u.calls, calls...)
}

// take removes all calls and returns them.
func (u *compensations) take() []target {
	u.mu.Lock()
	defer u.mu.Unlock()
	calls := u.calls
	u.calls = nil
	return calls
}

// Undo registers a call that is made if the run fails. It returns all errors that can be
// found now, because later the script could not handle them.
func (r *run) Undo(ctx context.Context, call abi.ToolCall) *abi.CallError {
	var t target
	var failed *abi.CallError
	before := r.resumed.undoBefore(call)
	switch {
	case r.replay != nil:
		t.ToolCall = call
		t.server, t.tool, failed = r.replay.Recording.Undo(call)
	case before != nil:
		t = target{ToolCall: call, server: before.Server, tool: before.Tool}
		failed = before.Err
	default:
		t = r.resolve(ctx, call)
		failed = r.checkUndo(ctx, &t)
	}
	if failed == nil {
		failed = r.permit(&t)
	}
	if r.settled && before != nil && before.Err == nil { // its caller goes on, and hears of it when it fails
		t.refused, failed = failed, nil
	}
	registered := true
	if failed == nil && r.tree.stage != nil {
		registered, failed = r.tree.stage.Undo(r.stagedCall(&t))
		t.approved = r.tree.approved()
	}
	u := journal.UndoRecord{Request: call, Server: t.server, Tool: t.tool, Err: failed}
	r.journal.Undo(u)
	if f := r.tree.flow; f != nil && r.replay == nil {
		f.Undo(r.path, u)
	}
	r.keepUndo(u, before)
	if failed == nil && registered {
		r.undo.add([]target{t})
	}
	return failed
}

func (r *run) checkUndo(ctx context.Context, t *target) *abi.CallError {
	switch {
	case t.server == abi.Composites:
		return t.fail(abi.ErrValidation, "a saved tool cannot undo anything (name tools of servers)")
	case t.err != nil:
		return t.fail(unresolvedType(t.err), t.err.Error())
	}
	return r.checkCall(ctx, ctx, t)
}

// Commit drops the calls registered with Undo.
func (r *run) Commit() {
	if r.replay != nil {
		if of, ok := r.replay.Recording.(interface{ Commit() }); ok {
			of.Commit()
		}
	}
	if r.tree.stage == nil || r.tree.stage.Commit() {
		r.undo.take()
	}
}

// closingTime is the time limit for undoing after the end of the session: package front
// waits half a second, and then the process may end.
const closingTime = 400 * time.Millisecond

// undoOutcome is the outcome of a call that undoes something.
type undoOutcome struct {
	server, tool string
	arguments    []byte
	err          *abi.CallError // nil if it succeeded
}

// call returns the call as a script writes it, for readers.
func (u *undoOutcome) call() string {
	const most = 80
	if len(u.arguments) > most {
		return u.server + "." + u.tool + "({...})"
	}
	return u.server + "." + u.tool + "(" + string(u.arguments) + ")"
}

// compensate makes the calls that undo what the run did, the last one first, even if
// others fail. They have a time limit of their own, because that of the run may be over.
// Each has a share of it; when that is over, the next call starts. A late call continues
// while there is time, but at most Options.Parallel calls are active; beyond that the
// oldest is cancelled.
func (r *run) compensate(ctx context.Context, f *Failure, fuel uint64) []undoOutcome {
	calls := r.undo.take()
	if len(calls) == 0 {
		return nil
	}
	if r.replay != nil {
		if of, ok := r.replay.Recording.(interface{ Undoing(*Failure) }); ok {
			of.Undoing(f)
		}
	}
	if err := r.keepUndoing(ctx, calls, f, fuel); err != nil {
		return nil // the run is lost
	}
	timeout := r.cfg.UndoTimeout
	if errors.Is(context.Cause(ctx), wire.ErrClosed) {
		timeout = min(timeout, closingTime)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if log := r.tree.log; log != nil {
		defer context.AfterFunc(log.Left(), cancel)()
	}
	end, _ := ctx.Deadline()
	outcomes := make([]undoOutcome, len(calls))
	var late []activeCompensation // oldest first
	for done := range calls {
		if len(late) >= r.cfg.Parallel {
			late[0].abort()
			late = late[1:]
		}
		t, outcome := &calls[len(calls)-1-done], &outcomes[done]
		t.record = r.journal.OpenUndo(t.ToolCall, t.server, t.tool)
		t.before = r.resumed.undoneBefore()
		r.keepCalls(calls[len(calls)-1-done : len(calls)-done])
		c := r.beginUndo(ctx, t, timeout, outcome)
		if !c.wait(time.Until(end) / time.Duration(len(calls)-done)) {
			late = append(late, c)
		}
	}
	for _, c := range late {
		<-c.done // it ends with ctx at the latest
	}
	return outcomes
}

// activeCompensation is an active call that undoes something.
type activeCompensation struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when there is an outcome
}

// beginUndo makes one of the calls; outcome is set when it is done.
func (r *run) beginUndo(ctx context.Context, t *target, timeout time.Duration, outcome *undoOutcome) activeCompensation {
	ctx, cancel := context.WithCancel(ctx)
	c := activeCompensation{cancel, make(chan struct{})}
	work := func() {
		defer close(c.done)
		defer cancel()
		answer := r.compensation(ctx, t, timeout)
		answer.Decision = t.decision
		if r.tree.left() != nil && !answeredBefore(t.before) {
			answer.Err = t.fail(abi.ErrCancelled, NoAnswer) // the process that goes on with the run settles it
		}
		t.record.Close(answer)
		r.keepAnswer(ctx, t)
		if answer.Err != nil {
			r.cfg.Log.Warn("not undone", "run", r.journal.ID(), "tool", r.tool, "call", t.server+"."+t.tool, "err", answer.Err.Message)
		}
		*outcome = undoOutcome{t.server, t.tool, t.Arguments, answer.Err}
	}
	if r.replay != nil { // the recording has the answers in this order
		work()
	} else {
		go work()
	}
	return c
}

// wait waits for the outcome for that time, and reports whether it came.
func (c activeCompensation) wait(most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// abort cancels the call and waits for its end.
func (c activeCompensation) abort() {
	c.cancel()
	<-c.done
}

// compensation makes one of the calls.
func (r *run) compensation(ctx context.Context, t *target, timeout time.Duration) journal.Answer {
	if r.replay != nil {
		return r.replay.Recording.Compensation(t.ToolCall, t.server, t.tool)
	}
	late := func() journal.Answer {
		return journal.Answer{Err: t.fail(abi.ErrTimeout, fmt.Sprintf("not done within %v (%s)", timeout, limits.UndoTime.Setting()))}
	}
	if answeredBefore(t.before) {
		return t.before.Answer
	}
	if t.refused != nil {
		return journal.Answer{Err: t.refused}
	}
	if r.settled {
		return journal.Answer{Err: t.fail(abi.ErrCancelled, NoAnswer)}
	}
	if r.doubtful(t) && !r.isIdempotent(t) {
		return journal.Answer{Err: t.fail(abi.ErrTool, "it is not known whether it was undone: the process died, and the tool is not idempotent")}
	}
	if ctx.Err() != nil {
		return late()
	}
	one := []target{*t}
	if failed := r.admit(ctx, one, true); failed != nil {
		failed.Server, failed.Tool = t.server, t.tool
		return journal.Answer{Err: failed}
	}
	limited, cancel := t.limited(ctx)
	defer cancel()
	r.tree.live.Store(true)
	call := r.scriptCall(t, nil, nil)
	call.Approved = call.Approved || t.approved
	reply := r.cfg.Upstreams.CallUpstream(limited, r.origin, call)
	switch {
	case ctx.Err() != nil:
		return late()
	case limited.Err() != nil:
		return journal.Answer{Err: t.fail(abi.ErrTimeout, t.timeoutMessage())}
	}
	t.Raw = false // a result with isError is a failure here
	answer := t.answer(reply)
	if f := r.tree.flow; f != nil {
		f.Answered(one[0].made, answer)
	}
	return answer
}

// compensationList returns the outcomes of the calls as JSON.
func compensationList(all []undoOutcome) []byte {
	items, in := make([][]byte, len(all)), newInliner()
	for i, u := range all {
		var o wire.Object
		o.Text("server", u.server)
		o.Text("tool", u.tool)
		o.Raw("params", in.value(u.arguments))
		if u.err == nil {
			o.Bool("undone", true)
		} else {
			o.Bool("undone", false)
			o.Raw("error", callError(u.err.Type, display.ClipSize(u.err.Message, maxListedMessage)))
		}
		items[i] = o.Bytes()
	}
	return wire.Array(items)
}
