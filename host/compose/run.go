package compose

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// run is one composite call. It is the sandbox.Caller of its script.
type run struct {
	*Composer
	journal  *journal.Run
	tool     string
	origin   route.Origin // of the request that the run answers
	meta     []byte       // for the calls it makes; nil: none
	progress *progress    // nil: nobody asked
	budget   budget
}

// execute runs the script and builds the reply. check, when given, judges the
// script's result.
func (r *run) execute(ctx context.Context, code string, params []byte, check func(result []byte) *Failure) wire.Reply {
	limited, cancel := context.WithTimeout(ctx, r.budget.timeout)
	defer cancel()
	out, err := r.cfg.Sandbox.Run(limited, sandbox.Run{
		Request: abi.Request{
			Op: abi.OpRun, Name: r.tool, Code: code, Params: params, Servers: r.cfg.Catalog.Servers(),
		},
		Limits: r.budget.Limits,
		Caller: r,
	})
	f := r.classify(ctx, limited, out, err)
	if f == nil && check != nil {
		f = check(out.Result)
	}
	return r.finish(out, f)
}

// classify says how a run ended, nil for a success. A context that has ended
// comes before all else, since whatever else failed may have failed because of
// it.
func (r *run) classify(ctx, limited context.Context, out sandbox.Outcome, err error) *Failure {
	switch {
	case err == nil && out.Err == nil && len(out.Result) > 0:
		return nil
	case ctx.Err() != nil:
		return contextFailure(ctx)
	case limited.Err() != nil:
		return r.budget.late("the script ran", out)
	}
	var limit *sandbox.LimitError
	switch {
	case errors.As(err, &limit):
		f := r.budget.failure(limit, out)
		f.locate(out.Err, r.cfg.Debug)
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
	f := &Failure{Type: scriptErrorType(out.Err.Type), Message: out.Err.Message}
	f.locate(out.Err, r.cfg.Debug)
	if out.Err.Limit == abi.LimitMemory { // met before any memory was asked for
		f.Message += "; this limit is fixed"
		f.Limit, f.Value, f.Used = abi.LimitMemory, float64(r.budget.Memory), float64(out.Memory)
	}
	return f
}

// internal is the failure for a fault of ours: what happened is for the log,
// the client gets the run's id to find it there.
func (r *run) internal(err error) *Failure {
	r.cfg.Log.Error("composite run failed inside the sandbox", "run", r.journal.ID(), "tool", r.tool, "err", err)
	return &Failure{
		Type: abi.ErrInternal, Run: r.journal.ID(),
		Message: fmt.Sprintf("the sandbox failed (run %s; the server's log says why)", r.journal.ID()),
	}
}

const (
	timeoutSetting = "execution.timeout"
	shuttingDown   = "the server is shutting down"
)

// scriptErrorType is the class a guest gave an error, if it is one that
// scripts can bring about: the guest is not trusted to speak for the host.
func scriptErrorType(t abi.ErrorType) abi.ErrorType {
	switch t {
	case abi.ErrValidation, abi.ErrTool, abi.ErrPermission, abi.ErrResource:
		return t
	}
	return abi.ErrRuntime
}

// contextFailure is the failure for a request whose context has ended.
func contextFailure(ctx context.Context) *Failure {
	cause := context.Cause(ctx)
	var cancelled *wire.CancelledError
	switch {
	case errors.As(cause, &cancelled):
		return &Failure{Type: abi.ErrCancelled, Message: cancelled.Error()}
	case errors.Is(cause, wire.ErrClosed):
		return &Failure{Type: abi.ErrCancelled, Message: shuttingDown}
	case errors.Is(cause, context.DeadlineExceeded):
		return &Failure{Type: abi.ErrTimeout, Message: "the request's time is over"}
	}
	return &Failure{Type: abi.ErrCancelled, Message: "the request was cancelled"}
}

// finish closes the journal, logs the run and builds the reply.
func (r *run) finish(out sandbox.Outcome, f *Failure) wire.Reply {
	r.progress.close()
	end := journal.Outcome{Memory: out.Memory, Fuel: out.Fuel, Result: out.Result}
	if f != nil {
		f.Fuel = out.Fuel
		end.Error, end.Message, end.Result = f.Type, f.Message, nil
	}
	r.journal.Close(end)
	rec := r.journal.Record()
	r.cfg.Log.Info("composite run", "run", rec.ID, "tool", rec.Tool, "outcome", outcomeName(rec.Outcome),
		"duration", rec.Duration.Round(time.Microsecond), "queued", out.Queued.Round(time.Microsecond),
		"calls", len(rec.Calls), "fuel", out.Fuel)
	return wire.Reply{Result: runResult(rec, f)}
}

func outcomeName(o journal.Outcome) string {
	if o.Error == "" {
		return "ok"
	}
	return string(o.Error)
}
