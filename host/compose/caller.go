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
		t := target{ToolCall: call, server: call.Server, tool: call.Tool}
		if server, tool, err := r.cfg.Catalog.Resolve(call.Server, call.Tool, call.Exact); err != nil {
			t.err = err
		} else {
			t.server, t.tool = server, tool
		}
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
	reply := r.cfg.Upstreams.CallUpstream(ctx, t.server, t.tool, params.bytes(), part.reporter(t.record))
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
	if errors.As(err, &hidden) {
		return abi.ErrPermission
	}
	return abi.ErrRuntime // a name the script got wrong, like any other unknown name
}

// Log takes an entry of the script's log.
func (r *run) Log(level abi.LogLevel, text string) { r.journal.Log(level, text) }

// Progress takes what the script says of its own advance.
func (r *run) Progress(p abi.Progress) { r.progress.script(p) }
