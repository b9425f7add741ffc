package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// undoing is the row with the compensations of a run, in the order of registration by the script.
// When a saved tool succeeds, the caller takes the compensations over.
type undoing struct {
	stack.Pass
	run *run

	mu    sync.Mutex
	calls []stack.Request
}

// row is a stack.Middleware.
func (u *undoing) row(next stack.Handler) stack.Handler {
	u.Pass = stack.Pass{Handler: next}
	return u
}

func (u *undoing) add(calls []stack.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls = append(u.calls, calls...)
}

// take removes all calls and returns them.
func (u *undoing) take() []stack.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	calls := u.calls
	u.calls = nil
	return calls
}

// Batch implements stack.Handler.
func (u *undoing) Batch(ctx context.Context, all []stack.Request) *abi.CallError {
	failed := u.Pass.Batch(ctx, all)
	for i := range all {
		if len(all[i].Undos) > 0 {
			u.add(all[i].Undos)
		}
	}
	return failed
}

// Undo implements stack.Handler.
func (u *undoing) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	failed := u.Pass.Undo(ctx, t)
	if failed == nil && !t.Unregistered {
		u.add([]stack.Request{*t})
	}
	return failed
}

// Commit implements stack.Handler.
func (u *undoing) Commit() bool {
	drop := u.Pass.Commit()
	if drop {
		u.take()
	}
	return drop
}

// End implements stack.Handler.
func (u *undoing) End(ctx context.Context, e *stack.Ending) {
	if e.Undoes {
		e.Err.(*Failure).Compensation = u.compensate(ctx, e)
	}
	u.Pass.End(ctx, e)
}

// Undo registers a call to be made if the run fails. Undo returns all errors that can be found now,
// because the script could not handle them later.
func (r *run) Undo(ctx context.Context, call abi.ToolCall) *abi.CallError {
	return r.top.Undo(ctx, &stack.Request{ToolCall: call})
}

// Commit drops the calls registered with Undo.
func (r *run) Commit() { r.top.Commit() }

// closingTime is the time limit for undoing after the end of the session: package front
// waits half a second, and then the process may end.
const closingTime = 400 * time.Millisecond

// undoOutcome is the outcome of a compensation.
type undoOutcome struct {
	server, tool string
	arguments    []byte
	err          *abi.CallError // nil if the call succeeded
}

// call returns the call as a script writes calls, for readers.
func (u *undoOutcome) call() string {
	const most = 80
	if len(u.arguments) > most {
		return u.server + "." + u.tool + "({...})"
	}
	return u.server + "." + u.tool + "(" + string(u.arguments) + ")"
}

// compensate makes the compensations of the run, the last one first, even if others fail. They have
// a time limit of their own, because the time of the run may be over. Each compensation has a share
// of the time; when the share is over, the next call starts. A late call continues while time is
// left, but at most Options.Parallel calls are active; beyond this number the oldest is cancelled.
func (u *undoing) compensate(ctx context.Context, e *stack.Ending) []undoOutcome {
	calls, cfg := u.take(), &u.run.cfg
	if len(calls) == 0 {
		return nil
	}
	slices.Reverse(calls)
	for i := range calls {
		calls[i].Undoes = true
	}
	if err := u.Pass.Undoing(ctx, e, calls); err != nil {
		return nil // the run is lost
	}
	timeout := cfg.UndoTimeout
	if errors.Is(context.Cause(ctx), wire.ErrClosed) {
		timeout = min(timeout, closingTime)
	}
	late := &lateError{timeout}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, late)
	defer cancel()
	if log := u.run.tree.log; log != nil {
		defer context.AfterFunc(log.Left(), cancel)()
	}
	end, _ := ctx.Deadline()
	outcomes := make([]undoOutcome, len(calls))
	var active []activeCompensation // the late compensations, oldest first
	for done := range calls {
		if len(active) >= cfg.Parallel {
			active[0].abort()
			active = active[1:]
		}
		_ = u.Pass.Batch(ctx, calls[done:done+1])
		c := u.begin(ctx, late, &calls[done], &outcomes[done])
		if !c.wait(time.Until(end) / time.Duration(len(calls)-done)) {
			active = append(active, c)
		}
	}
	for _, c := range active {
		<-c.done // the call ends with ctx at the latest
	}
	return outcomes
}

// lateError reports that a compensation took too long.
type lateError struct{ timeout time.Duration }

func (e *lateError) Error() string {
	return fmt.Sprintf("not done within %v (%s)", e.timeout, limits.UndoTime.Setting())
}

// activeCompensation is an active compensation.
type activeCompensation struct {
	cancel context.CancelFunc
	done   chan struct{} // closed with the outcome
}

// begin makes a compensation; outcome is set at the end of the call.
func (u *undoing) begin(ctx context.Context, late error, t *stack.Request, outcome *undoOutcome) activeCompensation {
	ctx, cancel := context.WithCancelCause(ctx)
	c := activeCompensation{func() { cancel(late) }, make(chan struct{})}
	work := func() {
		defer close(c.done)
		defer c.cancel()
		answer := u.Pass.Call(ctx, t)
		if answer.Err != nil {
			u.run.cfg.Log.Warn("not undone", "run", u.run.journal.ID(), "tool", u.run.tool, "call", t.Server+"."+t.Tool, "err", answer.Err.Message)
		}
		*outcome = undoOutcome{t.Server, t.Tool, t.Arguments, answer.Err}
	}
	if u.run.replay != nil { // the recording has the answers in this order
		work()
	} else {
		go work()
	}
	return c
}

// wait waits for the outcome for the time most, and reports whether the outcome came.
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

// abort cancels the call and waits for the end of the call.
func (c activeCompensation) abort() {
	c.cancel()
	<-c.done
}

// forwardUndo makes a compensation.
func (r *run) forwardUndo(ctx context.Context, t *stack.Request) stack.Answer {
	late := func() stack.Answer {
		var late *lateError
		if !errors.As(context.Cause(ctx), &late) {
			late = &lateError{r.cfg.UndoTimeout}
		}
		return stack.Answer{Err: t.Fail(abi.ErrTimeout, late.Error())}
	}
	run := ofRun(ctx, t)
	if run.Err() != nil {
		return late()
	}
	r.tree.live.Store(true)
	call := r.scriptCall(t, nil, nil)
	call.Approved = call.Approved || t.Approved
	reply := r.cfg.Upstreams.CallUpstream(ctx, r.origin, call)
	switch {
	case run.Err() != nil:
		return late()
	case ctx.Err() != nil:
		return stack.Answer{Err: t.Fail(abi.ErrTimeout, t.LimitMessage())}
	}
	t.Raw = false // a result with isError is a failure here
	return answerOf(t, reply)
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
