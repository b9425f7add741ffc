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

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Saved knows the saved tools; see tools.Store.
type Saved interface {
	// Get returns the saved tool with the given name; the error is tools.ErrNotFound if the tool is
	// unknown.
	Get(name string) (tools.Definition, error)
	List() []tools.Definition
}

// A tree is a run and the runs of all saved tools called by the run, directly or not. They share
// one account and one time limit.
type tree struct {
	account *sandbox.Account
	// extraCalls limits concurrent calls beyond the first call of each run. A run can always make a
	// call, so that runs cannot block each other.
	extraCalls *semaphore.Weighted
	fuel       atomic.Uint64 // used by runs below the root
	// checked is the fuel used for checking arguments for upstreams.
	checked atomic.Uint64
	// live reports that a call of an upstream was made, so that the run before cannot be continued
	// another time.
	live      atomic.Bool
	behind    behind
	called    policy.History
	batches   atomic.Int64            // of calls, so far
	log       *durable.Run            // of a durable run; nil for another run
	stop      context.CancelCauseFunc // ends a durable run
	questions *questions              // to the client; nil if the client can be asked at any time
	flow      *shadow.Tree            // follows the labels of answers; nil: nothing does
	stage     Stage                   // nil unless the runs are planned or carry out a plan
}

// newTree completes the tree of which the run is the root.
func (r *run) newTree(call route.Call, t *tree) *tree {
	extra := int64(r.cfg.Parallel - 1)
	if r.marker != "" {
		extra = 0 // calls one after the other
	}
	t.account, t.extraCalls = sandbox.NewAccount(r.budget.Limits, ownerOf(call)), semaphore.NewWeighted(extra)
	t.account.AddMessage(len(call.Params))
	if r.resumed != nil {
		checked := r.resumed.rec.Outcome.Checked // the arguments of calls from the record are not checked again
		t.account.Charge(checked)
		t.checked.Add(checked)
	}
	return t
}

// resolveSaved finds the saved tool for a call, by its name or its script name.
func (r *run) resolveSaved(call abi.ToolCall) (name string, err error) {
	if r.cfg.Saved == nil {
		return call.Tool, &savedError{name: call.Tool, upstream: r.scriptName(call.Tool)}
	}
	if _, err := r.cfg.Saved.Get(call.Tool); !errors.Is(err, tools.ErrNotFound) {
		return call.Tool, nil // any other error is returned when the tool is run
	}
	var all, found []string
	for _, d := range r.cfg.Saved.List() {
		all = append(all, d.Name)
		if !call.Exact && abi.Ident(d.Name) == call.Tool {
			found = append(found, d.Name)
		}
	}
	switch len(found) {
	case 0:
		return call.Tool, &savedError{call.Tool, nearest.Names(call.Tool, all), r.scriptName(call.Tool)}
	case 1:
		return found[0], nil
	}
	return call.Tool, &catalog.AmbiguousError{Server: abi.Composites, Name: call.Tool, Tools: found}
}

// scriptName returns the name in scripts of the upstream's tool with the name for agents name, for
// example server__tool; "" if the tool is unknown.
func (r *run) scriptName(name string) string {
	server, tool, ok := strings.Cut(name, "__")
	if !ok {
		return ""
	}
	server, tool = abi.Ident(server), abi.Ident(tool)
	if _, _, err := r.cfg.Catalog.Resolve(server, tool, false); err != nil {
		return ""
	}
	return server + "." + tool
}

// savedError is the error for a call of an unknown saved tool.
type savedError struct {
	name     string
	nearest  []string
	upstream string // name in scripts of the upstream's tool with this name for agents
}

func (e *savedError) Error() string {
	msg := fmt.Sprintf("there is no saved tool %q", e.name)
	if e.upstream != "" {
		return fmt.Sprintf("%s: it is a tool of a server, write %s", msg, e.upstream)
	}
	if len(e.nearest) > 0 {
		msg += fmt.Sprintf(" (did you mean %s?)", strings.Join(e.nearest, ", "))
	}
	return msg
}

// toScript is the audience of raw results in scripts. toScript does not depend on the
// configuration, so that scripts behave the same with any configuration.
var toScript = audience{structured: true, script: true}

// chainTo returns the saved tools that lead to a call of a saved tool, with the called tool last.
// The error is for the script.
func (r *run) chainTo(t *stack.Request) ([]string, *abi.CallError) {
	chain := append(slices.Clone(r.chain), t.Tool)
	switch {
	case slices.Contains(r.chain, t.Tool):
		return nil, t.Fail(abi.ErrValidation, "saved tools call each other in a cycle: "+strings.Join(chain, " -> "))
	case len(chain) > abi.MaxChain:
		failed := t.Fail(abi.ErrResource, fmt.Sprintf("more than %d saved tools call one another, a fixed limit: %s", abi.MaxChain, strings.Join(chain, " -> ")))
		failed.Limit = abi.LimitChain
		return nil, failed
	}
	return chain, nil
}

// compositeAgain replays the run of a saved tool.
func (r *run) compositeAgain(ctx context.Context, t *stack.Request, of *ReplayRun) journal.Answer {
	chain, failed := r.chainTo(t)
	if failed != nil {
		return journal.Answer{Err: failed}
	}
	child := r.replayed(of)
	child.chain, child.tree, child.inner, child.outer = chain, r.tree, true, r
	return r.below(ctx, child, of.Definition, t)
}

// composite runs a saved tool for a script.
func (r *run) composite(ctx context.Context, t *stack.Request) journal.Answer {
	chain, failed := r.chainTo(t)
	if failed == nil {
		failed = checkMetaOf(t)
	}
	if failed != nil {
		return journal.Answer{Err: failed}
	}
	def, now, failed := r.version(ctx, t)
	if failed != nil {
		return journal.Answer{Err: failed}
	}
	def = r.Composer.permitted(ctx, def)
	r.tree.flow.Saved(flow.ParseLabels(def.Labels))
	if r.tree.stage != nil {
		if failed := r.tree.stage.Saved(r.stagedCall(t), def); failed != nil {
			return journal.Answer{Err: failed}
		}
	}
	part := r.progress.begin(t.Server+"."+t.Tool, 0)
	child, f := r.child(chain, def, t, part)
	if f != nil {
		return journal.Answer{Err: t.Fail(f.Type, f.Message)}
	}
	clock := clockOf(t)
	child.answers, child.passed = clock, func() {}
	if passed := passedOf(t); passed != nil {
		child.passed = sync.OnceFunc(func() {
			passed()
			clock.goOn()
		})
	}
	if child.continues() {
		child.permitted.narrow(now)
	}
	if t.Refused != nil {
		child.permitted.forbidden = errors.New(t.Refused.Message)
	}
	answer := r.below(ctx, child, def, t)
	child.passed() // at the latest: a child that was undoing calls has gone on with the undoing
	if ofRun(ctx, t).Err() == nil && !(child.settled && stack.AnsweredBefore(t.Before)) {
		part.finish()
	}
	return answer
}

// version decides which version of a saved tool answers a call: the version at the start of a
// durable run, or the current version. The error is for the script.
func (r *run) version(ctx context.Context, t *stack.Request) (def, now tools.Definition, failed *abi.CallError) {
	var version string
	if !t.Repeats && t.Refused == nil {
		version, t.Refused = r.pass(ctx, t)
		if failed := t.Refused; failed != nil && (failed.Type != abi.ErrPermission || !t.Began) {
			return def, def, failed
		}
	}
	def, err := r.cfg.Saved.Get(t.Tool)
	switch {
	case err == nil:
	case t.Began:
		def, version = t.RunBefore().Definition, ""
		if t.Refused == nil && !t.Repeats {
			t.Refused = t.Fail(abi.ErrPermission, r.removedSince(t, err))
		}
	case t.RunBefore() != nil:
		return def, def, t.Fail(abi.ErrPermission, r.removedSince(t, err))
	default:
		return def, def, t.Fail(abi.ErrValidation, err.Error())
	}
	if t.Refused == nil && version != "" && version != def.Hash() {
		return def, def, t.Fail(abi.ErrPermission, changedSince(t.Tool))
	}
	now = def
	if before := t.RunBefore(); before != nil && before.Definition.Hash() != def.Hash() {
		if r.resumed.state == nil {
			return def, def, t.Fail(abi.ErrPermission, fmt.Sprintf("saved tool %q was changed since the client was asked", t.Tool))
		}
		def = before.Definition // a durable run goes on with the version of the start
	}
	return def, now, nil
}

// below makes the run of a saved tool, and returns the answer to the call.
func (r *run) below(ctx context.Context, child *run, def tools.Definition, t *stack.Request) journal.Answer {
	child.build()
	out, f := child.saved(child.observe(ctx), def, t.Arguments)
	run := ofRun(ctx, t)
	rec := child.end(run, out, f)
	t.Undos = child.undoing.take()
	if child.settled && stack.AnsweredBefore(t.Before) {
		a := t.Before.Answer
		a.Run = &rec
		return a
	}
	switch {
	case run.Err() != nil:
		return journal.Answer{Err: ended(ctx, t, NoAnswer), Run: &rec}
	case ctx.Err() != nil:
		f = &Failure{Type: abi.ErrTimeout, Message: t.LimitMessage()}
	}
	a := journal.Answer{Run: &rec}
	if f == nil {
		if a.Value = rec.Outcome.Result; t.Raw {
			a.Value = runResult(rec, nil, toScript)
		}
		if failed := r.refuseRaw(t, a.Value); failed != nil {
			return journal.Answer{Err: failed, Run: &rec}
		}
		return a
	}
	if t.Raw && f.Type != abi.ErrResource && f.Type != abi.ErrCancelled && f.Type != abi.ErrPermission && f.Type != abi.ErrWithheld {
		a.Value = runResult(rec, f, toScript)
		return a
	}
	r.failures.add(t.Tool, f)
	message := f.Message
	if f.Violations != nil {
		message += ": " + (&tools.ValidationError{Violations: f.Violations}).Error()
	}
	a.Err = t.Fail(f.Type, display.ClipSize(message, maxCallMessage))
	if f.Type == abi.ErrRuntime {
		a.Err.Type = abi.ErrTool // for the caller of the run, the failure is a failed tool
	}
	a.Err.Details = validOrNil(f.body())
	return a
}

// pass returns why the saved tool may not be called, nil if the call is allowed, and which version
// of the tool may be called; "" if the version does not matter.
func (r *run) pass(ctx context.Context, t *stack.Request) (version string, failed *abi.CallError) {
	if r.cfg.Gate == nil {
		return "", nil
	}
	clock := clockOf(t)
	origin, asking := r.inquirer(t, clock)
	if !r.tree.questions.begin(asking) {
		return "", t.Fail(abi.ErrCancelled, NotMade)
	}
	defer r.tree.questions.end(asking)
	call := r.scriptCall(t, clock, nil)
	call.Approved = t.RunBefore() != nil || // otherwise the run before would not have begun
		r.tree.approved()
	call.Version = func() string {
		version = VersionOf(r.cfg.Saved, t.Tool)
		return version
	}
	err := r.cfg.Gate.Pass(ctx, origin, call)
	switch {
	case err == nil:
		return version, nil
	case ctx.Err() != nil:
		return "", ended(ctx, t, NotMade)
	}
	return "", t.Fail(abi.ErrPermission, err.Error())
}

// child opens the run of a saved tool for a call of this run.
func (r *run) child(chain []string, def tools.Definition, t *stack.Request, part *part) (*run, *Failure) {
	call := route.Call{Origin: r.origin, Progress: part.reporter(t.Record)}
	parent := &journal.Parent{Run: r.journal.ID(), Call: t.Seq()}
	var before *resumed
	if below := t.RunBefore(); below != nil {
		before = newResumed(below, r.resumed.answers)
		before.state = r.resumed.state
	}
	child, f := r.newRun(beginning{
		def: def, saved: true, args: t.Arguments, meta: joinMeta(r.meta, t.Meta), call: call, parent: parent, before: before,
		stage: r.tree.stage, at: r.childMoment(t),
	})
	if f != nil {
		return nil, f
	}
	child.chain, child.tree, child.inner, child.outer, child.permitted.grants = chain, r.tree, true, r, r.permitted.grants
	child.path = madeOf(t).Path()
	if f := r.tree.flow; f != nil {
		f.Began(child.path, child.journal.Record().Begin)
	}
	child.caught = r.caught || t.Caught || t.Raw // a raw result contains the failure
	child.settled = t.Repeats
	child.keepChild(before)
	if child.progress != nil {
		child.progress.interval = 0 // only the interval of the root counts
	}
	return child, nil
}

// saved runs a saved tool with raw arguments.
func (r *run) saved(ctx context.Context, def tools.Definition, args []byte) (sandbox.Outcome, *Failure) {
	limited, cancel := r.scriptContext(ctx)
	defer cancel()
	params, f := r.arguments(ctx, limited, def, args)
	if f != nil {
		return sandbox.Outcome{}, f
	}
	if r.permitted != nil {
		if f := r.permitted.grant(ctx, def, r.servers, r.continues()); f != nil {
			return sandbox.Outcome{}, f
		}
	}
	r.schema = def.OutputSchema != nil
	out, f := r.execute(ctx, limited, def.Code, params, func(result []byte) *Failure {
		return r.checkResult(ctx, limited, def, result)
	})
	if r.cfg.Executed != nil {
		r.cfg.Executed(def.Name, time.Now())
	}
	return out, f
}

// inherit adds details from the failure of a called saved tool to the failure of a run.
func (f *Failure) inherit(from *Failure) {
	if from == nil || f.Limit != "" {
		return
	}
	f.Limit, f.Value, f.Used, f.Setting, f.Queued = from.Limit, from.Value, from.Used, from.Setting, from.Queued
}

// failures holds the last failure of each saved tool called by a run.
type failures struct {
	mu     sync.Mutex
	byTool map[string]*Failure
}

func (f *failures) add(tool string, failure *Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byTool == nil {
		f.byTool = map[string]*Failure{}
	}
	f.byTool[tool] = failure
}

func (f *failures) of(tool string) *Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byTool[tool]
}
