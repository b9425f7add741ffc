package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/pins"
	"github.com/mcp-metatool/mcp-metatool/host/policy"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// target is a call of a script with its resolved tool.
type target struct {
	abi.ToolCall
	server, tool string // real names
	err          error  // from resolving it
	record       *journal.Call
	decision     *policy.Decision // of the Gate; nil for a plain one
	approved     bool             // a person has allowed it, if it is a compensation
	batch        int64            // see StagedCall.Batch
	undo         []target         // compensations that the saved tool registered
	replayed     *ReplayedCall    // nil except in a replay
	made         *shadow.Made     // what follows labels knows of it; nil: nothing does
	withheld     string           // why it is not made although the run goes on; "" if it is
	// refused says why a compensation may not be made any more, or a saved tool that had begun may
	// not go on; nil if it may.
	refused *abi.CallError
	before  *journal.CallRecord // of the run that this one continues; nil if that did not make the call
	// passed lets the clocks of the callers go on, which stand still until a saved tool that had
	// begun has passed what it did; nil for another call.
	passed func()
}

// CallTools makes a batch of calls, at most Options.Parallel at a time in the
// whole tree of runs.
func (r *run) CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer {
	targets := r.resolveAll(ctx, calls)
	defer func() {
		for i := range targets {
			if passed := targets[i].passed; passed != nil { // whatever has become of the call
				passed()
			}
		}
	}()
	opened := make([]journal.Opened, len(targets))
	for i := range targets {
		opened[i] = journal.Opened{Request: targets[i].ToolCall, Server: targets[i].server, Tool: targets[i].tool}
	}
	batch := r.tree.batches.Add(1)
	for i, record := range r.journal.OpenCalls(opened) {
		targets[i].record, targets[i].batch = record, batch
	}
	r.keepCalls(targets)
	if failed := r.admitBatch(ctx, targets); failed != nil {
		return r.refuse(targets, failed)
	}
	answers := make([]abi.Answer, len(calls))
	for _, part := range r.inOrder(targets) {
		r.makeCalls(ctx, targets, part, answers)
	}
	for i := range targets {
		r.undo.add(targets[i].undo)
	}
	r.stopAfter(targets)
	return answers
}

// inOrder returns which calls of a batch are made together, by their indexes, and in which order.
// If labels are followed, saved tools run one after the other, and after the other calls: what
// they are told must not depend on what another one does at the same time.
func (r *run) inOrder(targets []target) (parts [][]int) {
	var together []int
	for i := range targets {
		if r.tree.flow != nil && targets[i].server == abi.Composites {
			parts = append(parts, []int{i})
		} else {
			together = append(together, i)
		}
	}
	if together != nil {
		parts = append([][]int{together}, parts...)
	}
	return parts
}

// makeCalls makes some calls of a batch together.
func (r *run) makeCalls(ctx context.Context, targets []target, which []int, answers []abi.Answer) {
	extra := int64(0)
	for int(extra) < len(which)-1 && r.tree.extraCalls.TryAcquire(1) {
		extra++
	}
	defer r.tree.extraCalls.Release(extra)
	var next atomic.Int64
	work := func() {
		for n := next.Add(1) - 1; int(n) < len(which); n = next.Add(1) - 1 {
			i := which[n]
			answers[i] = r.call(ctx, &targets[i]) // returns at once when ctx has ended
		}
	}
	var workers sync.WaitGroup
	r.tree.account.AddWorkers(int(extra))
	r.tree.questions.work(int(extra))
	var working atomic.Int64
	working.Store(extra + 1)
	share := func() {
		work()
		r.tree.questions.work(-1)
		if working.Add(-1) > 0 { // the run's own goroutine stays counted
			r.tree.account.AddWorkers(-1)
		}
	}
	for range extra {
		workers.Go(share)
	}
	share()
	workers.Wait()
	r.tree.questions.work(1)
}

// resolve finds the tool for a call. If the tool is missing because the server has not
// started or is down, the error says so. It does not use remembered lists of a server
// that is starting, because the tool may have changed.
func (r *run) resolve(ctx context.Context, call abi.ToolCall) target {
	t := target{ToolCall: call}
	if call.Server == abi.Composites {
		t.server = abi.Composites
		t.tool, t.err = r.resolveSaved(call)
		return t
	}
	find := func() { t.server, t.tool, t.err = r.cfg.Catalog.Resolve(call.Server, call.Tool, call.Exact) }
	find()
	if needsStart(r.cfg.Catalog, t.server, t.err) {
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

// names returns the script names of the servers that code can use, and of the others that
// it mentions: about these, it learns more than that there is no such name.
func (c *Composer) names(code string) []string {
	names := slices.Clone(c.cfg.Catalog.Servers())
	for _, name := range c.cfg.Catalog.Disabled() {
		if strings.Contains(code, name) {
			names = append(names, name)
		}
	}
	return names
}

// needsStart reports, from the result of Resolve, whether a server must have started
// before a call of it can be resolved.
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

// downError is the error for a call of a server that is not available.
type downError struct{ error }

// call makes one call and records it.
func (r *run) call(ctx context.Context, t *target) abi.Answer {
	t.record.Begin()
	var answer journal.Answer
	switch {
	case t.replayed != nil:
		answer = r.replayCall(ctx, t)
	case answeredBefore(t.before) && t.runBefore() == nil:
		answer = r.repeat(t)
		t.decision = answer.Decision
		r.tree.called.Add(t.server, t.tool)
	case r.settled && t.runBefore() == nil: // it had no answer either when its caller got one
		answer.Err = t.fail(abi.ErrCancelled, NoAnswer)
	case t.err != nil:
		answer.Err = t.fail(unresolvedType(t.err), t.err.Error())
	case ctx.Err() != nil:
		answer.Err = t.fail(contextFailure(ctx).Type, NotMade)
	case t.withheld != "":
		answer.Err = shadow.ErrNotMade(t.server, t.tool, t.withheld)
	default:
		if t.refused == nil {
			t.refused = r.mayCall(t)
		}
		if t.refused != nil && !r.began(t) {
			answer.Err = t.refused
			break
		}
		if r.doubtful(t) && t.server != abi.Composites {
			if answer.Err = r.settleDoubt(ctx, t); answer.Err != nil {
				break
			}
		}
		switch {
		case t.server == abi.Composites:
			answer = r.composite(ctx, t)
		case r.tree.stage != nil:
			answer = r.staged(ctx, t)
		default:
			answer = r.forward(ctx, t)
		}
	}
	answer.Decision = t.decided()
	t.record.Close(answer)
	if f := r.tree.flow; f != nil {
		f.Answered(t.made, answer)
	}
	r.keepAnswer(ctx, t)
	return abi.Answer{Value: answer.Value, Err: answer.Err}
}

// decided returns what policy has decided about the call. A person may have approved it in the
// run before.
func (t *target) decided() *policy.Decision {
	d := t.decision
	if d == nil || d.Approval != nil || t.before == nil || t.before.Answer.Decision == nil || t.before.Answer.Decision.Rule != d.Rule {
		return d
	}
	return t.before.Answer.Decision
}

func (r *run) forward(ctx context.Context, t *target) journal.Answer {
	limited, clock, stop := t.startClock(ctx)
	defer stop()
	origin, asking := r.inquirer(t, clock)
	if !r.tree.questions.begin(asking) {
		return journal.Answer{Err: t.fail(abi.ErrCancelled, NotMade)}
	}
	defer r.tree.questions.end(asking)
	if failed := r.checkCall(ctx, limited, t); failed != nil {
		return journal.Answer{Err: failed}
	}
	part := r.progress.begin(t.server+"."+t.tool, r.tree.flow.Expected(t.server, t.tool))
	r.tree.live.Store(true)
	call := r.scriptCall(t, clock, part.reporter(t.record))
	var computing *sandbox.LimitError
	call.Compute = func(work func(tools.Spend) error) error {
		fuel, err := r.compute(limited, func(c *sandbox.Compute) error { return work(c.Spend) })
		r.tree.checked.Add(fuel)
		errors.As(err, &computing)
		return err
	}
	reply := r.cfg.Upstreams.CallUpstream(limited, origin, call)
	switch {
	case computing != nil:
		return journal.Answer{Err: t.limitReached(computing)}
	case ctx.Err() != nil:
		return journal.Answer{Err: t.fail(contextFailure(ctx).Type, NoAnswer)}
	case limited.Err() != nil:
		part.finish()
		return journal.Answer{Err: t.fail(abi.ErrTimeout, t.timeoutMessage())}
	}
	part.finish()
	r.tree.account.AddMessage(len(reply.Result) + len(reply.Error))
	return t.answer(reply)
}

// scriptCall returns a call for the router. clock is that of the call; nil for none.
func (r *run) scriptCall(t *target, clock *callClock, progress func([]byte)) route.ScriptCall {
	call := route.ScriptCall{
		Server: t.server, Tool: t.tool, Params: t.params(r.callMeta(t)), Progress: progress,
		Script: r.tool, Run: r.journal.ID(), Called: &r.tree.called, Approved: r.tree.approved(),
		Decided: func(d policy.Decision) { t.decision = d.Recorded() },
		Pause:   func() (goOn func()) { return r.deciding(clock) },
	}
	if r.tree.log != nil {
		call.Permit = r.tree.log.Permitted
		call.Before = func(ctx context.Context) error { return r.intend(ctx, t) }
	}
	return call
}

// params returns the params of the call's request with that _meta, nil for none.
func (t *target) params(meta []byte) []byte {
	var params wire.Object
	params.Text("name", t.tool)
	params.Raw("arguments", t.Arguments)
	if meta != nil {
		params.Raw("_meta", meta)
	}
	return params.Bytes()
}

// limited returns the context of the call, which ends after the call's own timeout.
func (t *target) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.Timeout == 0 || t.replayed != nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, t.timeout())
}

// timeoutMessage returns the message for a call that took longer than its own timeout.
func (t *target) timeoutMessage() string {
	return fmt.Sprintf("no answer within %v, the timeout of the call", t.timeout())
}

// timeout returns the call's own timeout, at most a day.
func (t *target) timeout() time.Duration {
	const most = 24 * time.Hour
	return min(time.Duration(min(t.Timeout, most.Seconds())*float64(time.Second)), most)
}

// fail returns the error that the script gets for the call.
func (t *target) fail(class abi.ErrorType, message string) *abi.CallError {
	return &abi.CallError{Type: class, Server: t.server, Tool: t.tool, Message: message}
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
