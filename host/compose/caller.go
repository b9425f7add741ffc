package compose

import (
	"context"
	"errors"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// target is a call of a script, resolved.
type target struct {
	abi.ToolCall
	server, tool string // real names
	err          error  // why there is no such tool
	record       *journal.Call
}

// CallTools makes a batch of calls, at most Options.Parallel at a time.
func (r *run) CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer {
	targets := make([]target, len(calls))
	for i, call := range calls { // in the script's order, whatever the calls do then
		t := r.resolve(ctx, call)
		t.record = r.journal.OpenCall(t.server, t.tool, call.Arguments)
		targets[i] = t
	}
	answers := make([]abi.Answer, len(calls))
	if len(targets) == 1 {
		answers[0] = r.call(ctx, &targets[0])
		return answers
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(r.cfg.Parallel, len(targets)) {
		workers.Go(func() {
			for i := range next {
				answers[i] = r.call(ctx, &targets[i])
			}
		})
	}
	for i := range targets {
		next <- i // r.call returns at once when ctx has ended
	}
	close(next)
	workers.Wait()
	return answers
}

// resolve finds the tool that a call means. A server that lacks it may not
// have started yet, or be down: then that is what is wrong.
func (r *run) resolve(ctx context.Context, call abi.ToolCall) target {
	t := target{ToolCall: call}
	find := func() { t.server, t.tool, t.err = r.cfg.Catalog.Resolve(call.Server, call.Tool, call.Exact) }
	find()
	var missing *catalog.NotFoundError
	if errors.As(t.err, &missing) && t.server != "" {
		if err := r.cfg.Upstreams.Ready(ctx, r.origin, t.server); err != nil {
			t.err = &downError{err}
		} else {
			find()
		}
	}
	if t.server == "" {
		t.server = call.Server
	}
	if t.tool == "" {
		t.tool = call.Tool
	}
	return t
}

// downError says that a call's server is not there to ask for its tools.
type downError struct{ error }

// call makes one call and records it.
func (r *run) call(ctx context.Context, t *target) abi.Answer {
	t.record.Begin()
	var answer journal.Answer
	switch {
	case t.err != nil:
		answer.Err = t.fail(unresolvedType(t.err), t.err.Error())
	case ctx.Err() != nil:
		answer.Err = t.fail(contextFailure(ctx).Type, "not made: the run had ended")
	default:
		answer = r.forward(ctx, t)
	}
	t.record.Close(answer)
	return abi.Answer{Value: answer.Value, Err: answer.Err}
}

func (r *run) forward(ctx context.Context, t *target) journal.Answer {
	params := object{}
	params.raw("name", wire.Quote(t.tool))
	params.raw("arguments", t.Arguments)
	if r.meta != nil {
		params.raw("_meta", r.meta)
	}
	part := r.progress.begin(t.server + "." + t.tool)
	reply := r.cfg.Upstreams.CallUpstream(ctx, r.origin, t.server, t.tool, params.bytes(), part.reporter(t.record))
	if ctx.Err() != nil {
		return journal.Answer{Err: t.fail(contextFailure(ctx).Type, "no answer before the run ended")}
	}
	part.finish()
	return t.answer(reply)
}

// fail is the error that the script gets for the call.
func (t *target) fail(class abi.ErrorType, message string) *abi.CallError {
	return &abi.CallError{Type: class, Server: t.server, Tool: t.tool, Message: message}
}

func unresolvedType(err error) abi.ErrorType {
	var hidden *catalog.HiddenError
	var down *downError
	switch {
	case errors.As(err, &hidden):
		return abi.ErrPermission
	case errors.As(err, &down):
		return abi.ErrTool
	}
	return abi.ErrRuntime // a name the script got wrong, like any other unknown name
}

// Log takes an entry of the script's log.
func (r *run) Log(level abi.LogLevel, text string) { r.journal.Log(level, text) }

// Progress takes what the script says of its own advance.
func (r *run) Progress(p abi.Progress) { r.progress.script(p) }
