package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// A run of a durable tool goes on if the process of the run dies. Package durable keeps the log of
// the run. Another process reads the log and continues the run as if the client had answered
// (resume.go): the script runs again from the beginning and gets the recorded answers, and then
// goes on. In contrast to a run that asked the client, the log has no end, and a call without an
// answer may have been made.

// IdempotencyKey is the member of a call's _meta with the same value if a durable run makes the
// call again.
const IdempotencyKey = "io.github.mcp-metatool/idempotencyKey"

// leaveTime bounds the remaining work when a run ends in this process.
const leaveTime = 2 * time.Second

// isDurable reports whether a run of a tool for a client is to be durable.
func (c *Composer) isDurable(def tools.Definition) bool { return def.Durable && c.cfg.Durable != nil }

// answerDurable is answer for a durable run. If the client goes away, the run goes on. The run ends
// early only if the client cancels the request.
func (r *run) answerDurable(ctx context.Context, b beginning) wire.Reply {
	about := durable.About{}
	if b.call.Origin != nil {
		s := b.call.Origin.Session()
		about = durable.About{Principal: s.Principal(), Token: s.TokenName()}
	}
	rec := r.journal.Record()
	log, err := r.cfg.Durable.Begin(ctx, rec.ID, rec.Start, &rec.Begin, about)
	if errors.Is(err, durable.ErrLost) {
		r.release(b.before)
		return elsewhere(err)
	}
	if err != nil {
		r.release(b.before)
		f := &Failure{Type: abi.ErrResource, Message: fmt.Sprintf("%s was not run: it is durable, and its log cannot be written: %v", b.def.Name, err)}
		r.journal.Close(journal.Outcome{Error: f.Type, Message: f.Message, Failure: f.body()})
		return wire.Reply{Result: f.Result()}
	}
	done := make(chan wire.Reply, 1)
	began := r.cfg.Durable.Go(ctx, func(own context.Context, cancel context.CancelCauseFunc) {
		stop := context.AfterFunc(ctx, func() {
			if cause := context.Cause(ctx); endsRun(cause) {
				cancel(cause)
			}
		})
		defer stop()
		done <- r.durable(own, cancel, log, b)
	})
	if !began {
		_ = log.Leave(context.WithoutCancel(ctx)) // otherwise the lease ends by itself
		return elsewhere(durable.ErrSuspended)
	}
	select {
	case reply := <-done:
		return reply
	case <-ctx.Done():
	}
	if endsRun(context.Cause(ctx)) {
		return <-done
	}
	return wire.Reply{Result: contextFailure(ctx).Result()} // no client reads the reply
}

// elsewhere returns the reply to a client that waits for a run which goes on in another process.
func elsewhere(why error) wire.Reply {
	return wire.Reply{Result: (&Failure{Type: abi.ErrCancelled, Message: why.Error()}).Result(), Elsewhere: true}
}

// endsRun reports whether the end of a request ends its durable run: the client no longer wants the
// result. Otherwise the client, or this process, is gone.
func endsRun(cause error) bool {
	var cancelled *wire.CancelledError
	var otherwise *otherwiseError
	return errors.As(cause, &cancelled) || errors.As(cause, &otherwise) || errors.Is(cause, errAsks)
}

// durable makes a run whose log this process has.
func (r *run) durable(ctx context.Context, cancel context.CancelCauseFunc, log *durable.Run, b beginning) wire.Reply {
	t := &tree{log: log, stop: cancel}
	r.logID, r.inDoubt = log.ID(), r.journal.Record().Definition.Durability
	r.passed = func() {}
	if r.continues() {
		r.passed = t.behind.begin()
	}
	log.OnEnd(func(cause error) {
		if !errors.Is(cause, durable.ErrLost) && !errors.Is(cause, durable.ErrSuspended) { // all compensations must be known
			t.behind.after(func() { cancel(cause) })
			return
		}
		cancel(cause)
	}, r.waits.total, r.budget.timeout)
	ctx, end := r.plant(ctx, b, t)
	defer end()
	out, f := r.script(ctx, b)
	r.passed()
	return r.finish(ctx, out, f)
}

// left returns why a durable run goes on in another process, nil if the run stays here.
func (t *tree) left() error {
	if t.log == nil {
		return nil
	}
	return context.Cause(t.log.Left())
}

// settleLog removes the log of an ended durable run, or gives the run back. kept is the reason why
// other replicas may not have the record; nil if they have.
func (r *run) settleLog(ctx context.Context, kept error) {
	log := r.tree.log
	if log == nil {
		return
	}
	left := r.tree.left() != nil
	if err := cmp.Or(kept, r.journal.Sync()); err != nil && !left {
		r.cfg.Log.Warn("the journal does not have the end of a durable run, so that it is repeated", "run", r.journal.ID(), "err", err)
		left = true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	settle, what := log.Close, "the log of a durable run that has ended was not removed; the next process does it"
	if left {
		settle, what = log.Leave, "a durable run was not given back; others wait until its lease is over"
	}
	if err := settle(ctx); err != nil && !errors.Is(err, durable.ErrLost) {
		r.cfg.Log.Warn(what, "run", r.journal.ID(), "err", err)
	}
}

// continues reports whether the run goes on with a durable run, whose log has the earlier calls.
func (r *run) continues() bool { return r.resumed != nil && r.resumed.state != nil }

// keepChild notes that a saved tool is run in a durable run.
func (r *run) keepChild(before *resumed) {
	if r.tree.log == nil {
		return
	}
	if before != nil && before.state != nil {
		r.logID = before.rec.ID
		return
	}
	rec := r.journal.Record()
	rec.Parent = &journal.Parent{Run: r.outer.logID, Call: rec.Parent.Call}
	r.logID = rec.ID
	r.tree.log.Keep(func(l *journal.Lines) { l.Begin(rec.ID, rec.Start, &rec.Begin) })
}

// book is the log of a durable run: a second record of the calls, with which another process can go
// on.
type book struct{ *run }

// books returns the books written along with the record of the run.
func (r *run) books() []stack.Book {
	if r.tree.log == nil {
		return nil
	}
	return []stack.Book{book{r}}
}

// Opened notes the calls of a batch that the run before did not make.
func (r book) Opened(all []stack.Request) {
	r.tree.log.Keep(func(l *journal.Lines) {
		for i := range all {
			if all[i].Before == nil || !r.continues() {
				rec := all[i].Record.Record()
				l.Call(r.logID, &rec)
			}
		}
	})
}

// Answered writes the answer to a call, unless the log has it.
func (r book) Answered(ctx context.Context, t *stack.Request) {
	if r.settled || r.continues() && stack.AnsweredBefore(t.Before) {
		return
	}
	if r.tree.flow.Denied() && !t.Undoes { // the process that goes on with the run decides about the call again
		return
	}
	rec := t.Record.Record()
	if !stack.AnsweredBefore(&rec) { // the run ends, and the answer with the run
		return
	}
	_ = r.tree.log.Answer(ctx, r.logID, &rec) // the run ends if Answer fails
}

// Registered notes a compensation registered by the script.
func (r book) Registered(u journal.UndoRecord, t *stack.Request) {
	if undoOf(t) == nil || !r.continues() {
		r.tree.log.Keep(func(l *journal.Lines) { l.Undo(r.logID, &u) })
	}
}

// Undoing writes which compensations are made now. Nothing is undone if writing fails.
func (r book) Undoing(ctx context.Context, e *stack.Ending, all []stack.Request) error {
	if r.settled || r.resumed.undoing(r.logID) != nil {
		return nil
	}
	u := durable.Undoing{Failure: e.Err.(*Failure).body(), Fuel: e.Outcome.Fuel}
	for i := range all {
		t := &all[i]
		u.Calls = append(u.Calls, durable.UndoCall{Request: t.ToolCall, Server: t.Server, Tool: t.Tool})
	}
	return r.tree.log.Undoing(ctx, r.logID, u)
}

// leftRow leaves the compensations of a durable run to the process that goes on with the run.
type leftRow struct {
	stack.Pass
	r *run
}

func (l *leftRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	answer := l.Pass.Call(ctx, t)
	if t.Undoes && l.r.tree.left() != nil && !stack.AnsweredBefore(t.Before) {
		answer.Err = t.Fail(abi.ErrCancelled, NoAnswer)
	}
	return answer
}

// intend writes the intention to send a call. The error is for the call, which is not made.
func (r *run) intend(ctx context.Context, t *stack.Request) error {
	return r.tree.log.Intend(ctx, r.logID, t.Seq(), t.Server, t.Tool, t.Arguments)
}

// callMeta returns the _meta of a call, with an idempotency key in a durable run.
func (r *run) callMeta(t *stack.Request) []byte {
	meta := joinMeta(r.meta, t.Meta)
	if r.tree.log == nil || t.Record == nil {
		return meta
	}
	var key wire.Object
	key.Text(IdempotencyKey, r.tree.log.Key(r.logID, t.Seq()))
	return joinMeta(meta, key.Bytes())
}

// doubtError reports that a call may or may not have been made before the process died.
type doubtError struct {
	server, tool string
	undo         bool // the compensations are made
	why          string
}

func (e *doubtError) Error() string {
	text := fmt.Sprintf("it is not known whether %s.%s was called before the process that made the run died: ", e.server, e.tool)
	return text + e.why
}

// doubtful reports whether a call may or may not have been made.
func (r *run) doubtful(t *stack.Request) bool {
	return t.Before != nil && !stack.AnsweredBefore(t.Before) && r.continues() && r.resumed.state.InDoubt(r.logID, t.Seq())
}

// settleDoubt decides about a call that may have been made. A call of an idempotent tool is made
// again. The error is for the call, which is not made, and ends the run.
func (r *run) settleDoubt(ctx context.Context, t *stack.Request) *abi.CallError {
	if r.isIdempotent(t) {
		return nil
	}
	root := r.root()
	bad := &doubtError{server: t.Server, tool: t.Tool}
	switch root.inDoubt.Doubt() {
	case tools.UndoInDoubt:
		bad.undo, bad.why = true, "the run ends, and what it did is undone"
	case tools.AskInDoubt:
		err := r.askInDoubt(ctx, t)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return t.Fail(contextFailure(ctx).Type, NotMade)
		}
		bad.why = "it is not made again: " + err.Error()
	default:
		bad.why = "the run ends, and nothing is undone (look at the server, and call the tool again if needed)"
	}
	r.tree.stop(bad)
	return t.Fail(abi.ErrCancelled, NotMade)
}

// repeats reports whether a call got an answer before the process of a durable run died. A saved
// tool is then run again, but only to find the compensations.
func (r *run) repeats(t *stack.Request) bool {
	return r.settled || r.continues() && stack.AnsweredBefore(t.Before)
}

// began reports whether the process of a durable run died while a saved tool ran for t. The tool is
// run again, even if the tool may no longer be called, since the compensations must be known.
func (r *run) began(t *stack.Request) bool {
	return r.continues() && t.Server == abi.Composites && t.RunBefore() != nil
}

// root returns the root of the run's tree.
func (r *run) root() *run {
	for r.outer != nil {
		r = r.outer
	}
	return r
}

// isIdempotent reports whether a call can be made again without harm.
func (r *run) isIdempotent(t *stack.Request) bool {
	return r.cfg.Idempotent != nil && r.cfg.Idempotent(t.Server, t.Tool)
}

// askInDoubt asks a person whether a call is made again. The error is the reason why not.
func (r *run) askInDoubt(ctx context.Context, t *stack.Request) error {
	if r.cfg.Confirm == nil {
		return errors.New("nobody can be asked")
	}
	// The name of the rule is specific to this call, so that a remembered answer is for no other
	// call.
	rule := "in doubt " + r.tree.log.Key(r.logID, t.Seq())
	return r.cfg.Confirm(ctx, r.origin, r.scriptCall(t, nil, nil), rule,
		"the process that made the run died, and it is not known whether the call was made; allow makes it again")
}

// undoing returns the compensations that the process before had begun to make for a run; nil for
// none.
func (s *resumed) undoing(run string) *durable.Undoing {
	if s == nil || s.state == nil {
		return nil
	}
	return s.state.Undoing(run)
}

// failedBefore returns the failure of a run whose process died while undoing the run's calls, and
// makes the compensations known. The failure is nil for another run.
func (r *run) failedBefore() (sandbox.Outcome, *Failure) {
	u := r.resumed.undoing(r.logID)
	if u == nil {
		return sandbox.Outcome{}, nil
	}
	// The record of this run has the script's calls, too, and so the compensations have the same
	// numbers as before.
	for i := range r.resumed.rec.Calls {
		c := &r.resumed.rec.Calls[i]
		if c.Undo {
			break
		}
		if again := r.journal.OpenCall(c.Request, c.Server, c.Tool); c.Done {
			again.Close(c.Answer)
		}
	}
	for _, undo := range r.resumed.rec.Undos {
		r.journal.Undo(undo)
	}
	calls := make([]stack.Request, len(u.Calls))
	for i, c := range u.Calls {
		t := stack.Request{ToolCall: c.Request, Server: c.Server, Tool: c.Tool}
		if t.Refused = r.permitted.granted(&t); t.Refused == nil {
			t.Refused = r.narrowedBelow(&t)
		}
		calls[len(calls)-1-i] = t
	}
	r.undoing.take()
	r.undoing.add(calls)
	f := recordedFailure(u.Failure)
	f.recorded = nil // the outcomes of the compensations are added
	return sandbox.Outcome{Fuel: u.Fuel}, f
}

// dropUndone drops the compensations of a saved tool that had answered its caller, if the tool made
// them itself. Otherwise the caller takes the compensations over, as before.
func (r *run) dropUndone() {
	if r.resumed.undoing(r.logID) != nil {
		r.undoing.take()
	}
}

// undoneBefore returns the record of the next compensation in the log; nil if the compensation was
// not made.
func (s *resumed) undoneBefore() *journal.CallRecord {
	if s == nil || s.state == nil {
		return nil
	}
	for ; s.nextUndone < len(s.rec.Calls); s.nextUndone++ {
		if c := &s.rec.Calls[s.nextUndone]; c.Undo {
			s.nextUndone++
			return c
		}
	}
	return nil
}
