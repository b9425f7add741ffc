package compose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// run is a composite call, and the sandbox.Caller of the script.
type run struct {
	*Composer
	journal  *journal.Run
	tool     string
	origin   route.Origin // of the request answered by the run
	meta     []byte       // for the run's calls; nil: none
	progress *progress    // nil: the client did not ask for progress
	budget   budget
	servers  []string // script names
	// agentTools are the tools in the code that only agents can call.
	agentTools []string
	moment     Moment
	marker     string // see abi.Request.Withheld; "" unless the run is planned or carries out a plan
	caught     bool   // a calling script could go on after a failure of this run
	schema     bool   // the tool has an outputSchema

	tree  *tree
	inner bool   // the run is not the root of the tree
	path  string // see shadow.Batch
	outer *run   // the caller of this run; nil for the root of the tree
	// clock is the clock of the script, and answers the clock of the call in outer; nil for none.
	clock, answers *callClock
	passed         func()    // called when a durable run has passed the calls of the run before
	waits          stopwatch // while people decide about calls of this run, or of runs below
	chain          []string  // the saved tools that led to this run, with the run's own tool last
	failures       failures  // of called saved tools

	top       stack.Handler // of the run's stack; see build
	permitted *permitted    // nil for a replay
	undoing   *undoing

	resumed *resumed // nil unless the run continues another run
	logID   string   // of the run in the log of a durable run
	inDoubt tools.Durability
	// settled reports that the caller of a saved tool has got the answer before: this run only
	// finds the compensations again.
	settled   bool
	concluded *shadow.Conclusion // of information flow; nil until the end, or without information flow

	forwarded int // number of log entries sent to the client

	observed func(journal.Record) // of the observer; nil for none

	replay *ReplayRun         // the replayed run; nil for a live run
	stop   context.CancelFunc // ends the script of a replayed run
}

// execute runs the script until limited, the context of the script, ends. check, if not nil, checks
// the result.
func (r *run) execute(ctx, limited context.Context, code string, params []byte, check func(result []byte) *Failure) (sandbox.Outcome, *Failure) {
	if r.unstarted() {
		return sandbox.Outcome{}, readFailure(r.replay.Failure)
	}
	if out, f := r.failedBefore(); f != nil {
		r.tree.flow.Forget(f.Type == abi.ErrPermission)
		return out, f
	}
	out, err := r.cfg.Sandbox.Run(limited, sandbox.Run{
		Request: abi.Request{
			Op: abi.OpRun, Name: r.tool, Code: code, Params: params, Servers: r.servers, AgentTools: r.agentTools,
			Now: r.moment.Now, Seed: r.moment.Seed, Withheld: r.marker,
		},
		Limits:        r.limits(),
		Repeats:       len(r.chain) > 0, // the run of a saved tool
		Account:       r.tree.account,
		Caller:        r,
		LogFullAdvice: " (" + limits.Logs.Remedy() + ")",
	})
	if f := r.stopped(ctx, limited, &out); f != nil {
		return out, f
	}
	f := r.classify(ctx, limited, out, err)
	if f == nil && r.resumed.more() {
		f = &Failure{Type: abi.ErrPermission, Message: fmt.Sprintf("the script made %d calls less than %s", len(r.resumed.rec.Calls)-r.resumed.next, r.resumed.since())}
	}
	if f == nil && check != nil {
		f = check(out.Result)
	}
	return out, r.leave(f)
}

// leave tells the stage, if set, that the script has ended, and returns the failure.
func (r *run) leave(f *Failure) *Failure {
	switch {
	case r.tree.stage == nil:
	case f == nil && !r.inner:
		if err := r.tree.stage.Finished(); err != nil {
			return &Failure{Type: abi.ErrPermission, Message: err.Error()}
		}
	case f != nil && f.Type == abi.ErrWithheld:
		r.tree.stage.Left(f)
	}
	return f
}

// classify returns the failure of a run, nil if the run succeeded. An ended context takes
// precedence, because the end may have caused any other failure.
func (r *run) classify(ctx, limited context.Context, out sandbox.Outcome, err error) *Failure {
	switch {
	case err == nil && out.Err == nil && len(out.Result) > 0:
		return nil
	case ctx.Err() != nil:
		return contextFailure(ctx)
	case limited.Err() != nil:
		return r.budget.timeoutFailure("the script ran", out)
	}
	var limit *sandbox.LimitError
	switch {
	case errors.As(err, &limit):
		f := r.budget.failure(limit, out)
		f.addDetails(out.Err, r.cfg.Debug)
		return f
	case errors.Is(err, sandbox.ErrClosed):
		return &Failure{Type: abi.ErrCancelled, Message: shuttingDown}
	case err != nil:
		return r.internal(err)
	case out.Err == nil:
		return r.internal(errors.New("neither result nor error"))
	case out.Err.Type == abi.ErrInternal:
		return r.internal(errors.New("guest: " + out.Err.Message))
	}
	f := &Failure{Type: r.errorType(out.Err), Message: out.Err.Message}
	f.addDetails(out.Err, r.cfg.Debug)
	if f.Server == abi.Composites {
		f.inherit(r.failures.of(f.Tool))
	}
	if out.Err.Limit == abi.LimitMemory { // reached before any memory was allocated
		f.Message += "; this limit is fixed"
		f.Limit, f.Value, f.Used = abi.LimitMemory, float64(r.budget.Memory), float64(out.Memory)
	}
	return f
}

// internal returns the failure for a bug of the product. The error is logged; the client gets the
// run's id to find the error in the log.
func (r *run) internal(err error) *Failure {
	r.cfg.Log.Error("composite run failed inside the sandbox", "run", r.journal.ID(), "tool", r.tool, "err", err)
	return &Failure{
		Type: abi.ErrInternal, Run: r.journal.ID(),
		Message: fmt.Sprintf("the sandbox failed (run %s; the server's log says why)", r.journal.ID()),
	}
}

const shuttingDown = "the server is shutting down"

// scriptErrorType returns the guest's class of an error if scripts can cause the class, otherwise
// abi.ErrRuntime: the guest is not trusted to report for the host.
func (r *run) scriptErrorType(t abi.ErrorType) abi.ErrorType {
	switch t {
	case abi.ErrWithheld:
		if r.marker != "" {
			return t
		}
	case abi.ErrValidation, abi.ErrTool, abi.ErrPermission, abi.ErrResource:
		return t
	}
	return abi.ErrRuntime
}

// errorType returns the class of a script's error. For a failed call the class is the class from
// the host for the error of the call.
func (r *run) errorType(e *abi.Error) abi.ErrorType {
	if e.Call != nil {
		for _, c := range r.journal.Record().Calls {
			if made := c.Answer.Err; made != nil && made.Type == e.Type && made.Server == e.Call.Server && made.Tool == e.Call.Tool {
				return e.Type
			}
		}
	}
	return r.scriptErrorType(e.Type)
}

// contextFailure returns the failure for a request whose context has ended.
func contextFailure(ctx context.Context) *Failure {
	cause := context.Cause(ctx)
	var cancelled *wire.CancelledError
	var otherwise *otherwiseError
	var doubt *doubtError
	var full *durable.FullError
	switch limit := sandbox.Exhausted(cause, ""); {
	case errors.Is(cause, errAsks):
		return &Failure{Type: abi.ErrCancelled, Message: errAsks.Error()}
	case errors.As(cause, &otherwise):
		return &Failure{Type: abi.ErrTool, Server: otherwise.server, Message: otherwise.Error()}
	case errors.As(cause, &doubt):
		return &Failure{Type: abi.ErrTool, Server: doubt.server, Message: doubt.Error()}
	case errors.Is(cause, durable.ErrGap), errors.As(cause, &full):
		return &Failure{Type: abi.ErrResource, Message: cause.Error()}
	case errors.Is(cause, durable.ErrLost), errors.Is(cause, durable.ErrSuspended), errors.Is(cause, durable.ErrCancelRequested):
		return &Failure{Type: abi.ErrCancelled, Message: cause.Error()}
	case limit != nil:
		return &Failure{
			Type: abi.ErrResource, Message: limits.Explain(limit), Limit: string(limit.Limit),
			Value: float64(limit.Value), Used: float64(limit.Used), Setting: settingOf(limit.Limit),
		}
	case errors.As(cause, &cancelled):
		return &Failure{Type: abi.ErrCancelled, Message: cancelled.Error()}
	case errors.Is(cause, wire.ErrClosed):
		return &Failure{Type: abi.ErrCancelled, Message: shuttingDown}
	case errors.Is(cause, context.DeadlineExceeded):
		return &Failure{Type: abi.ErrTimeout, Message: "the request timed out"}
	}
	return &Failure{Type: abi.ErrCancelled, Message: "the request was cancelled"}
}

// finish ends the run and builds the reply.
func (r *run) finish(ctx context.Context, out sandbox.Outcome, f *Failure) wire.Reply {
	rec := r.end(ctx, out, f)
	kept := r.keep(ctx)
	r.settleLog(ctx, kept)
	if left := r.tree.left(); left != nil {
		return elsewhere(left)
	}
	if asked := r.tree.questions.close(); len(asked) > 0 && errors.Is(context.Cause(ctx), errAsks) {
		r.labelSession(r.tree.flow.Active()) // a question may contain data of the run
		r.asked.keep(rec)
		r.settleClaim(false)
		return inputRequired(r.journal.ID(), asked)
	}
	r.settleClaim(f != nil)
	if kept != nil && r.journal.IsRequired() {
		return wire.Reply{Result: r.unkept(kept).Result()}
	}
	if d := r.withheld(); d != nil {
		return d.reply()
	}
	if err := r.journal.Unsigned(); err != nil {
		return wire.Reply{Result: r.unsigned(err).Result()}
	}
	to := audience{revision: r.revision(), detail: r.cfg.Calls, structured: r.cfg.Structured || r.schema, whole: r.cfg.Whole, memory: r.tree.account.Peak(), labels: r.labelsOfResult()}
	if to.whole {
		to.detail = Full
	}
	return wire.Reply{Result: runResult(rec, f, to)}
}

// end makes the calls that undo a failed run, closes the record and logs the run. ctx is the
// context of the run.
func (r *run) end(ctx context.Context, out sandbox.Outcome, f *Failure) journal.Record {
	r.progress.close()
	e := &stack.Ending{
		Outcome: journal.Outcome{Memory: out.Memory, Fuel: out.Fuel, Result: out.Result},
		Left:    func() bool { return r.tree.left() != nil },
	}
	if f != nil {
		e.Err = f
	}
	switch {
	case e.Left(): // another process ends the record
	case r.settled:
		r.dropUndone()
	default: // otherwise the caller of the run, which also ends, undoes the calls
		e.Undoes = f != nil && f.Type != abi.ErrWithheld && (ctx.Err() == nil || !r.inner) && !r.orphaned() && undoes(context.Cause(ctx))
	}
	e.Settle = func(e *stack.Ending) { r.settle(ctx, e, f) }
	r.top.End(ctx, e)
	if e.Left() && !e.Record.Done {
		return e.Record
	}
	r.log(&e.Record, out, e.Outcome.Fuel)
	if r.observed != nil {
		r.observed(e.Record)
	}
	return e.Record
}

// settle completes the outcome of a run without further calls.
func (r *run) settle(ctx context.Context, e *stack.Ending, f *Failure) {
	end := &e.Outcome
	end.Waited = r.waits.total()
	end.Asks = f != nil && (errors.Is(context.Cause(ctx), errAsks) || r.replay != nil && r.replay.Asks)
	if r.inner {
		r.tree.fuel.Add(end.Fuel)
	} else {
		end.Fuel += r.tree.fuel.Load()
		end.Checked = r.tree.checked.Load()
		r.concluded = r.conclude(ctx, *end, f)
	}
	if f != nil {
		f.Fuel = end.Fuel
		end.Error, end.Message, end.Result, end.Failure = f.Type, f.Message, nil, f.body()
	}
}

// undoes reports whether a run undoes its calls after the given cause of the end.
func undoes(cause error) bool {
	var doubt *doubtError
	if errors.As(cause, &doubt) {
		return doubt.undo
	}
	return !errors.Is(cause, errAsks)
}

// log logs the run. The journal tells more about the run, so a successful run is only of interest
// at the level debug.
func (r *run) log(rec *journal.Record, out sandbox.Outcome, fuel uint64) {
	level := slog.LevelInfo
	if rec.Outcome.Error == "" || rec.Outcome.Asks {
		level = slog.LevelDebug
	}
	if !r.cfg.Log.Enabled(context.Background(), level) {
		return
	}
	r.cfg.Log.Log(context.Background(), level, "composite run", "run", rec.ID, "tool", r.tool, "outcome", rec.OutcomeName(),
		"duration", rec.Duration.Round(time.Microsecond), "queued", out.Queued.Round(time.Microsecond),
		"calls", len(rec.Calls), "fuel", fuel)
}

// revision returns the protocol revision of the request; none without a client.
func (r *run) revision() protocol.Revision {
	if r.origin == nil {
		return protocol.Revision{}
	}
	return r.origin.Revision()
}
