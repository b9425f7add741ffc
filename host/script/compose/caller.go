package compose

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// CallTools makes a batch of calls, at most Options.Parallel at a time in the
// whole tree of runs.
func (r *run) CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer {
	if len(calls) == 0 {
		return nil
	}
	all := make([]stack.Request, len(calls))
	batch := r.tree.batches.Add(1)
	for i := range calls {
		all[i].ToolCall, all[i].Batch = calls[i], batch
	}
	_ = r.top.Batch(ctx, all) // the answers say so, too
	answers := make([]abi.Answer, len(all))
	for i := range all {
		answers[i] = abi.Answer{Value: all[i].Answer.Value, Err: all[i].Answer.Err}
	}
	return answers
}

// resolve finds the tool for a call. If the tool is missing because the server has not started or
// is down, the error says so. Remembered lists of a server in its start are not used, because the
// tool may have changed.
func (r *run) resolve(ctx context.Context, t *stack.Request) {
	call := t.ToolCall
	t.Server, t.Tool, t.Err = "", "", nil
	if call.Server == abi.Composites {
		t.Server = abi.Composites
		t.Tool, t.Err = r.resolveSaved(call)
		return
	}
	find := func() { t.Server, t.Tool, t.Err = r.cfg.Catalog.Resolve(call.Server, call.Tool, call.Exact) }
	find()
	if needsStart(r.cfg.Catalog, t.Server, t.Err) {
		if err := r.cfg.Upstreams.Ready(ctx, r.origin, t.Server); err != nil {
			t.Err = &downError{err}
		} else {
			find()
		}
	}
	if t.Server == "" {
		t.Server = call.Server
	}
	if t.Tool == "" {
		t.Tool = call.Tool
	}
}

// names returns the script names of the servers that code can use, and of the other servers in
// code: for these, the error for code tells more than an unknown name.
func (c *Composer) names(code string) []string {
	names := slices.Clone(c.cfg.Catalog.Servers())
	for _, name := range c.cfg.Catalog.Disabled() {
		if strings.Contains(code, name) {
			names = append(names, name)
		}
	}
	return names
}

// needsStart reports, from the result of Resolve, whether a server must have started before a call
// of the server can be resolved.
func needsStart(c Catalog, server string, err error) bool {
	var missing *catalog.NotFoundError
	var hidden *catalog.HiddenError
	switch {
	case server == "" || errors.As(err, &hidden):
		return false
	case errors.As(err, &missing):
		return true
	}
	return c.Remembered(server)
}

// downError is the error for a call of an unavailable server.
type downError struct{ error }

// upstream is the row for calls of servers.
type upstream struct {
	stack.Pass
	r *run
}

// Call implements stack.Handler.
func (u *upstream) Call(ctx context.Context, t *stack.Request) stack.Answer {
	r := u.r
	if t.Undoes {
		return r.forwardUndo(ctx, t)
	}
	r.tree.live.Store(true)
	report, _ := t.Note(progressKey).(func([]byte))
	call := r.scriptCall(t, clockOf(t), report)
	var computing *sandbox.LimitError
	call.Compute = func(work func(tools.Spend) error) error {
		fuel, err := r.compute(ctx, func(c *sandbox.Compute) error { return work(c.Spend) })
		r.tree.checked.Add(fuel)
		errors.As(err, &computing)
		return err
	}
	reply := r.cfg.Upstreams.CallUpstream(ctx, r.originOf(t), call)
	if computing != nil {
		return journal.Answer{Err: limitReached(t, computing)}
	}
	if failed := ended(ctx, t, NoAnswer); failed != nil {
		return journal.Answer{Err: failed}
	}
	r.tree.account.AddMessage(len(reply.Result) + len(reply.Error))
	return answerOf(t, reply)
}

// scriptCall returns a call for the router. clock is the clock of the call; nil for none.
func (r *run) scriptCall(t *stack.Request, clock *callClock, progress func([]byte)) route.ScriptCall {
	call := route.ScriptCall{
		Server: t.Server, Tool: t.Tool, Params: paramsOf(t, r.callMeta(t)), Progress: progress,
		Script: r.tool, Run: r.journal.ID(), Called: &r.tree.called, Approved: r.tree.approved(),
		Decided: func(d policy.Decision) { t.Decision = stack.Recorded(d) },
		Pause:   func() (goOn func()) { return r.deciding(clock) },
	}
	if r.tree.log != nil {
		call.Permit = r.tree.log.Permitted
		call.Before = func(ctx context.Context) error { return r.intend(ctx, t) }
	}
	return call
}

// paramsOf returns the params of the call's request with the given _meta, nil for none.
func paramsOf(t *stack.Request, meta []byte) []byte {
	var params wire.Object
	params.Text("name", t.Tool)
	params.Raw("arguments", t.Arguments)
	if meta != nil {
		params.Raw("_meta", meta)
	}
	return params.Bytes()
}

func unresolvedType(err error) abi.ErrorType {
	var hidden *catalog.HiddenError
	var down *downError
	var disabled *catalog.DisabledError
	var diverged *divergedError
	var unpinned *pins.Finding
	switch {
	case errors.As(err, &hidden), errors.As(err, &diverged), errors.As(err, &unpinned):
		return abi.ErrPermission
	case errors.As(err, &down), errors.As(err, &disabled):
		return abi.ErrTool
	}
	return abi.ErrRuntime // an unknown name in the script, like any other
}

// Progress implements sandbox.Caller.
func (r *run) Progress(p abi.Progress) {
	if !r.resumed.silent() {
		r.progress.script(p)
	}
}
