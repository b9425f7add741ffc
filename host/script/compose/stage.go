package compose

import (
	"bytes"
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Stage decides about the calls of a run that is planned, or that carries out a plan, and of the
// runs below. In the tree of a Stage all calls are made one after the other, in the script's order
// within a batch. So the methods are never called at the same time.
type Stage interface {
	// Plan is the plan in the records of the runs. The Marker of the Plan is abi.Request.Withheld.
	Plan() journal.Plan
	// Moment is the time and the seed of all runs.
	Moment() Moment
	// Call answers a call of an upstream's tool, by c.Make or otherwise.
	Call(ctx context.Context, c StagedCall) journal.Answer
	// Undo is called for each compensation that a script registers. registered reports whether the
	// compensation is registered, to be made if the run fails. The error is for the script.
	Undo(c StagedCall) (registered bool, failed *abi.CallError)
	// Commit is called when a script drops the compensations. The result reports whether they are
	// dropped.
	Commit() bool
	// Saved is called before a saved tool is run for a script. The error is for the script.
	Saved(c StagedCall, def tools.Definition) *abi.CallError
	// Left is called when a run ends because the script needs an unknown answer: first for the run
	// of the script.
	Left(f *Failure)
	// Finished is called when the script of the root of the tree has succeeded. The error
	// makes the run fail.
	Finished() error
	// Approved reports whether a person has allowed the calls made now.
	Approved() bool
}

// StagedCall is a call about which a Stage decides.
type StagedCall struct {
	abi.ToolCall        // as made by the script
	Server, Tool string // real names
	// Batch is the number of the batch of the script's call, in the tree of runs; 0 for a
	// compensation.
	Batch int64
	// Caught reports that the script, or a calling script, could go on if the call failed.
	Caught bool
	// Made is the call as the router gets the call, without progress.
	Made route.ScriptCall
	// Make makes the call. Make is nil for a compensation.
	Make func() journal.Answer
	// Fail returns the script's error for the call.
	Fail func(class abi.ErrorType, message string) *abi.CallError
}

// RunStaged runs a tool for a Stage. saved distinguishes a saved tool from code; params are the raw
// arguments. The failure is nil if the run succeeded. The type of the failure is abi.ErrWithheld if
// the script could not go on without an unknown answer. Then nothing is undone. If the run could
// not begin, the record is empty.
func (c *Composer) RunStaged(ctx context.Context, def tools.Definition, saved bool, params []byte, call route.Call, stage Stage) (journal.Record, *Failure) {
	if f := c.ready(ctx); f != nil {
		return journal.Record{}, f
	}
	if saved {
		def = c.permitted(ctx, def)
	} else {
		def.Name = EvalName
	}
	b := beginning{def: def, saved: saved, args: params, meta: forwardMeta(call.Params), call: call, stage: stage}
	r, f := c.newRun(b)
	if f != nil {
		return journal.Record{}, f
	}
	ctx, end := r.plant(ctx, b, &tree{stage: stage})
	defer end()
	out, f := r.script(ctx, b)
	rec := r.end(ctx, out, f)
	r.labelSession(r.tree.flow.Active()) // the outcome of the plan shows the answers
	return rec, f
}

// staged lets the stage answer a call of an upstream's tool.
func (r *run) staged(ctx context.Context, t *stack.Request, next stack.Handler) journal.Answer {
	c := r.stagedCall(t)
	c.Make = func() journal.Answer { return next.Call(ctx, t) }
	return r.tree.stage.Call(ctx, c)
}

// stagedCall returns the description of a call for the stage.
func (r *run) stagedCall(t *stack.Request) StagedCall {
	return StagedCall{
		ToolCall: t.ToolCall, Server: t.Server, Tool: t.Tool, Batch: t.Batch, Caught: t.Caught || r.caught,
		Made: r.scriptCall(t, nil, nil), Fail: t.Fail,
	}
}

// approved reports whether a person has allowed the current calls of the tree.
func (t *tree) approved() bool { return t.stage != nil && t.stage.Approved() }

// refuseRaw returns why the whole result of a saved tool cannot be passed on: the text has the
// marker of withheld answers, and the script would learn of the marker.
func (r *run) refuseRaw(t *stack.Request, result []byte) *abi.CallError {
	if !t.Raw || r.marker == "" || !bytes.Contains(result, []byte(r.marker)) {
		return nil
	}
	return t.Fail(abi.ErrWithheld, fmt.Sprintf("the whole result of %s.%s has an answer that is not known yet", t.Server, t.Tool))
}

// matching returns a schema for values of the run, in which answers may be withheld.
func (r *run) matching(s *tools.Schema) *tools.Schema {
	if r.marker == "" {
		return s
	}
	return s.WithUnknown(r.marker)
}
