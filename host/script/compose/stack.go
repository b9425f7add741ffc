package compose

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

// build makes the stack of a run, whose tree is known. All stacks are built here.
//
//	undo         compensations
//	names        the real names of the tools
//	record       the record of the run, and the log of a durable run
//	flow         information flow decides about a batch
//	fan          the calls of a batch, concurrently
//	left         compensations of a run that another process continues
//	resumed      answers of the run that this run continues
//	sound        calls that cannot be made
//	permissions  the calls that a saved tool may make
//	doubt        calls that may have been made before the process died
//	timeout      the call's own timeout
//	saved        saved tools
//	questions    questions of servers, for clients that are asked by a result
//	schema       the arguments of calls
//	plan         calls of a plan
//	late flow    information flow decides about calls that are made after their batch
//	progress     the progress of calls
//	upstream     the servers
//
// A replay, and so a shadow, has undo, names, record, fan, and recorded answers.
func (r *run) build() { r.top = stack.Of(r.rows()...) }

func (r *run) rows() []stack.Middleware {
	r.undoing = &undoing{run: r}
	fan := stack.Fan(&r.top, r.tree.extraCalls, crew{r})
	if r.replay != nil {
		of := &recorded{run: r}
		return []stack.Middleware{r.undoing.row, of.names, stack.Record(r.journal), fan, of.answers}
	}
	flow, log, stage := r.tree.flow != nil, r.tree.log != nil, r.tree.stage != nil
	next := func(h stack.Handler) stack.Pass { return stack.Pass{Handler: h} }
	when := func(used bool, row stack.Middleware) stack.Middleware {
		if !used {
			return nil
		}
		return row
	}
	return []stack.Middleware{
		r.undoing.row,
		func(h stack.Handler) stack.Handler { return &names{next(h), r} },
		stack.Record(r.journal, r.books()...),
		when(flow, func(h stack.Handler) stack.Handler { return &flowRow{next(h), r} }),
		fan,
		when(log, func(h stack.Handler) stack.Handler { return &leftRow{next(h), r} }),
		when(r.resumed != nil, func(h stack.Handler) stack.Handler { return &resumedRow{next(h), r} }),
		func(h stack.Handler) stack.Handler { return &soundRow{next(h)} },
		r.permitted.row,
		when(r.continues(), func(h stack.Handler) stack.Handler { return &doubtRow{next(h), r} }),
		func(h stack.Handler) stack.Handler { return &timeoutRow{next(h), r} },
		func(h stack.Handler) stack.Handler { return &savedRow{next(h), r} },
		when(r.tree.questions != nil, func(h stack.Handler) stack.Handler { return &questionsRow{next(h), r} }),
		func(h stack.Handler) stack.Handler { return &schemaRow{next(h), r} },
		when(stage, func(h stack.Handler) stack.Handler { return &planRow{next(h), r} }),
		when(flow, func(h stack.Handler) stack.Handler { return &lateFlow{next(h), r} }),
		when(r.progress != nil, func(h stack.Handler) stack.Handler { return &progressRow{next(h), r} }),
		func(h stack.Handler) stack.Handler { return &upstream{next(h), r} },
	}
}

// crew implements stack.Crew.
type crew struct{ r *run }

func (c crew) Begin(extra int) {
	c.r.tree.account.AddWorkers(extra)
	c.r.tree.questions.work(extra)
}

func (c crew) Idle(last bool) {
	c.r.tree.questions.work(-1)
	if !last { // the run's own goroutine stays counted
		c.r.tree.account.AddWorkers(-1)
	}
}

func (c crew) Over() { c.r.tree.questions.work(1) }

// names is the row that finds real names. A run that continues another run keeps the names of the
// repeated calls.
type names struct {
	stack.Pass
	r *run
}

func (n *names) Batch(ctx context.Context, all []stack.Request) *abi.CallError {
	switch r := n.r; {
	case all[0].Undoes:
		all[0].Before = r.resumed.undoneBefore()
	case r.resumed != nil:
		r.resolveResumed(ctx, all)
	default:
		for i := range all {
			r.resolve(ctx, &all[i])
		}
	}
	defer func() {
		for i := range all {
			if passed := passedOf(&all[i]); passed != nil {
				passed() // whatever became of the call
			}
		}
	}()
	return n.Pass.Batch(ctx, all)
}

// Undo keeps the record of the compensation in the run before with the request.
func (n *names) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	before := n.r.resumed.undoBefore(t.ToolCall)
	if before == nil {
		n.r.resolve(ctx, t)
		return n.Pass.Undo(ctx, t)
	}
	t.Set(undoKey, before)
	t.Server, t.Tool = before.Server, before.Tool
	return n.Pass.Undo(ctx, t)
}

// undoKey is for the *journal.UndoRecord of the run before.
var undoKey = &stack.Key{Name: "registered before"}

// undoOf returns the record of the compensation in the run before; nil for none.
func undoOf(t *stack.Request) *journal.UndoRecord {
	u, _ := t.Note(undoKey).(*journal.UndoRecord)
	return u
}

// flowRow lets information flow decide about batches, and passes the answers to information flow.
type flowRow struct {
	stack.Pass
	r *run
}

func (f *flowRow) Batch(ctx context.Context, all []stack.Request) *abi.CallError {
	if !all[0].Undoes {
		if failed := f.r.admitBatch(ctx, all); failed != nil {
			return failed
		}
		for i := range all { // the input of a saved tool must not depend on a concurrent call
			all[i].Alone = all[i].Server == abi.Composites
		}
	}
	return f.Pass.Batch(ctx, all)
}

func (f *flowRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	answer := f.Pass.Call(ctx, t)
	if !t.Undoes {
		f.r.tree.flow.Answered(madeOf(t), answer)
	}
	return answer
}

func (f *flowRow) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	failed := f.Pass.Undo(ctx, t)
	f.r.tree.flow.Undo(f.r.path, journal.UndoRecord{Request: t.ToolCall, Server: t.Server, Tool: t.Tool, Err: failed})
	return failed
}

// flowKey is for the decision of information flow about a call.
var flowKey = &stack.Key{Name: "flow"}

// madeOf returns the knowledge of information flow about a call; nil for none.
func madeOf(t *stack.Request) *shadow.Made {
	m, _ := t.Note(flowKey).(*shadow.Made)
	return m
}

// lateFlow lets information flow decide about calls made later than their batch: calls of plans,
// and compensations.
type lateFlow struct {
	stack.Pass
	r *run
}

func (f *lateFlow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if !t.Undoes && f.r.tree.stage == nil {
		return f.Pass.Call(ctx, t)
	}
	one := []stack.Request{*t}
	if failed := f.r.admit(ctx, one, t.Undoes); failed != nil {
		failed.Server, failed.Tool = t.Server, t.Tool
		return stack.Answer{Err: failed}
	}
	made := madeOf(&one[0])
	if !t.Undoes {
		t.Set(flowKey, made)
		return f.Pass.Call(ctx, t)
	}
	answer := f.Pass.Call(ctx, t)
	f.r.tree.flow.Answered(made, answer)
	return answer
}

// resumedRow gives the answers of the run that this run continues.
type resumedRow struct {
	stack.Pass
	r *run
}

func (w *resumedRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	r := w.r
	before := stack.AnsweredBefore(t.Before)
	switch {
	case t.Undoes && before:
		return t.Before.Answer
	case t.Undoes && t.Refused != nil:
		return stack.Answer{Err: t.Refused}
	case t.Undoes && r.settled:
		return stack.Answer{Err: t.Fail(abi.ErrCancelled, NoAnswer)}
	case t.Undoes && r.doubtful(t) && !r.isIdempotent(t):
		return stack.Answer{Err: t.Fail(abi.ErrTool, "it is not known whether it was undone: the process died, and the tool is not idempotent")}
	case t.Undoes:
	case before && t.RunBefore() == nil:
		answer := r.repeat(t)
		t.Decision = answer.Decision
		r.tree.called.Add(t.Server, t.Tool)
		return answer
	case r.settled && t.RunBefore() == nil: // the call had no answer either when the run's caller got an answer
		return stack.Answer{Err: t.Fail(abi.ErrCancelled, NoAnswer)}
	}
	return w.Pass.Call(ctx, t)
}

func (w *resumedRow) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	before := undoOf(t)
	if before != nil && before.Err != nil {
		return before.Err
	}
	failed := w.Pass.Undo(ctx, t)
	if w.r.settled && before != nil && before.Err == nil { // the run's caller goes on, and hears of the compensation when the compensation fails
		t.Refused, failed = failed, nil
	}
	return failed
}

// soundRow answers impossible calls.
type soundRow struct{ stack.Pass }

func (s *soundRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if t.Undoes {
		return s.Pass.Call(ctx, t)
	}
	switch withheld, _ := t.Note(withheldKey).(string); {
	case t.Err != nil:
		return stack.Answer{Err: t.Fail(unresolvedType(t.Err), t.Err.Error())}
	case ctx.Err() != nil:
		return stack.Answer{Err: t.Fail(contextFailure(ctx).Type, NotMade)}
	case withheld != "":
		return stack.Answer{Err: shadow.ErrNotMade(t.Server, t.Tool, withheld)}
	}
	return s.Pass.Call(ctx, t)
}

func (s *soundRow) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	switch {
	case undoOf(t) != nil: // the compensation was checked at the earlier registration
	case t.Server == abi.Composites:
		return t.Fail(abi.ErrValidation, "a saved tool cannot undo anything (name tools of servers)")
	case t.Err != nil:
		return t.Fail(unresolvedType(t.Err), t.Err.Error())
	}
	return s.Pass.Undo(ctx, t)
}

// withheldKey is for why information flow does not make a call although the run goes on.
var withheldKey = &stack.Key{Name: "withheld"}

// doubtRow decides about calls that may have been made before.
type doubtRow struct {
	stack.Pass
	r *run
}

func (d *doubtRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if !t.Undoes && t.Server != abi.Composites && d.r.doubtful(t) {
		if failed := d.r.settleDoubt(ctx, t); failed != nil {
			return stack.Answer{Err: failed}
		}
	}
	return d.Pass.Call(ctx, t)
}

// savedRow runs saved tools.
type savedRow struct {
	stack.Pass
	r *run
}

func (s *savedRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if t.Server == abi.Composites {
		return s.r.composite(ctx, t)
	}
	return s.Pass.Call(ctx, t)
}

// planRow lets a Stage decide about calls.
type planRow struct {
	stack.Pass
	r *run
}

func (p *planRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if t.Undoes {
		return p.Pass.Call(ctx, t)
	}
	return p.r.staged(ctx, t, p.Pass.Handler)
}

func (p *planRow) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	failed := p.Pass.Undo(ctx, t)
	if failed != nil {
		return failed
	}
	registered, failed := p.r.tree.stage.Undo(p.r.stagedCall(t))
	t.Unregistered, t.Approved = !registered, p.r.tree.approved()
	return failed
}

func (p *planRow) Commit() bool { return p.r.tree.stage.Commit() }
