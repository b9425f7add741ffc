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

// A run of a durable tool goes on if its process dies. Package durable keeps its log. Another
// process reads it and continues the run as if the client had answered (resume.go): the
// script runs again from its beginning and gets the recorded answers, and then it goes on.
// In contrast to a run that asked the client, the log has no end, and a call without an answer
// may have been made.

// IdempotencyKey is the member of a call's _meta that is the same if a durable run makes the
// call again.
const IdempotencyKey = "io.github.mcp-metatool/idempotencyKey"

// leaveTime bounds what is left to do when a run ends in this process.
const leaveTime = 2 * time.Second

// isDurable reports whether a run of a tool that a client calls is to be durable.
func (c *Composer) isDurable(def tools.Definition) bool { return def.Durable && c.cfg.Durable != nil }

// answerDurable is answer for a durable run. If the client goes away, the run goes on. Only
// if the client cancels it, it ends.
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
	return wire.Reply{Result: contextFailure(ctx).Result()} // nobody reads it
}

// elsewhere returns the reply to a client that waits for a run which goes on in another process.
func elsewhere(why error) wire.Reply {
	return wire.Reply{Result: (&Failure{Type: abi.ErrCancelled, Message: why.Error()}).Result(), Elsewhere: true}
}

// endsRun reports whether the end of a request ends its durable run: the client does not want
// it any more. Otherwise the client, or this process, is gone.
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

// left returns why a durable run goes on in another process, nil if it does not.
func (t *tree) left() error {
	if t.log == nil {
		return nil
	}
	return context.Cause(t.log.Left())
}

// settleLog removes the log of a durable run that has ended, or gives the run back. kept says why
// other replicas may not have its record; nil if they have.
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

// continues reports whether the run goes on with a durable one, whose log has what that did.
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

// book is the log of a durable run. It is a second record of the calls, with which another process
// can go on.
type book struct{ *run }

// books returns what is written along with the record of the run.
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
	if r.tree.flow.Denied() && !t.Undoes { // who goes on with the run decides about it again
		return
	}
	rec := t.Record.Record()
	if !stack.AnsweredBefore(&rec) { // the run ends, and the answer with it
		return
	}
	_ = r.tree.log.Answer(ctx, r.logID, &rec) // the run ends if it fails
}

// Registered notes a compensation that the script has registered.
func (r book) Registered(u journal.UndoRecord, t *stack.Request) {
	if undoOf(t) == nil || !r.continues() {
		r.tree.log.Keep(func(l *journal.Lines) { l.Undo(r.logID, &u) })
	}
}

// Undoing writes which compensations are made now. Nothing is undone if that fails.
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

// leftRow leaves the compensations of a durable run to the process that goes on with it.
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

// intend writes that a call is about to be sent. The error is for the call, which is not made.
func (r *run) intend(ctx context.Context, t *stack.Request) error {
	return r.tree.log.Intend(ctx, r.logID, t.Seq(), t.Server, t.Tool, t.Arguments)
}

// callMeta returns the _meta of a call, with its idempotency key in a durable run.
func (r *run) callMeta(t *stack.Request) []byte {
	meta := joinMeta(r.meta, t.Meta)
	if r.tree.log == nil || t.Record == nil {
		return meta
	}
	var key wire.Object
	key.Text(IdempotencyKey, r.tree.log.Key(r.logID, t.Seq()))
	return joinMeta(meta, key.Bytes())
}

// doubtError says that it is not known whether a call was made before the process died.
type doubtError struct {
	server, tool string
	undo         bool // the compensations are made
	why          string
}

func (e *doubtError) Error() string {
	text := fmt.Sprintf("it is not known whether %s.%s was called before the process that made the run died: ", e.server, e.tool)
	return text + e.why
}

// doubtful reports whether it is not known if a call was made.
func (r *run) doubtful(t *stack.Request) bool {
	return t.Before != nil && !stack.AnsweredBefore(t.Before) && r.continues() && r.resumed.state.InDoubt(r.logID, t.Seq())
}

// settleDoubt decides what becomes of a call that may have been made. If the tool is idempotent,
// it is made again. The error is for the call, which is not made, and ends the run.
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

// repeats reports whether a call got its answer before the process of a durable run died. A
// saved tool is run again then, but only to find its compensations.
func (r *run) repeats(t *stack.Request) bool {
	return r.settled || r.continues() && stack.AnsweredBefore(t.Before)
}

// began reports whether the process of a durable run died while a saved tool ran for it. The tool
// is run again, even if it may not be called any more, since its compensations must be known.
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

// askInDoubt asks a person whether a call is made again. The error says why it is not.
func (r *run) askInDoubt(ctx context.Context, t *stack.Request) error {
	if r.cfg.Confirm == nil {
		return errors.New("nobody can be asked")
	}
	// The name of the rule is that of this one call, so that a remembered answer is for no other.
	rule := "in doubt " + r.tree.log.Key(r.logID, t.Seq())
	return r.cfg.Confirm(ctx, r.origin, r.scriptCall(t, nil, nil), rule,
		"the process that made the run died, and it is not known whether the call was made; allow makes it again")
}

// undoing returns the compensations that the process before had begun to make for a run; nil
// if it had not.
func (s *resumed) undoing(run string) *durable.Undoing {
	if s == nil || s.state == nil {
		return nil
	}
	return s.state.Undoing(run)
}

// failedBefore returns the failure of a run whose process died when it undid what the run did,
// and makes the compensations known. It is nil for another run.
func (r *run) failedBefore() (sandbox.Outcome, *Failure) {
	u := r.resumed.undoing(r.logID)
	if u == nil {
		return sandbox.Outcome{}, nil
	}
	// The record of this run has what the script did, too, and so the compensations have the
	// same numbers as before.
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
	f.recorded = nil // what becomes of the compensations is added
	return sandbox.Outcome{Fuel: u.Fuel}, f
}

// dropUndone drops the compensations of a saved tool that had answered its caller, if it made
// them itself. Otherwise its caller takes them over, as before.
func (r *run) dropUndone() {
	if r.resumed.undoing(r.logID) != nil {
		r.undoing.take()
	}
}

// undoneBefore returns the record of the next compensation in the log; nil if it was not made.
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
