// Package compose runs composite tools: from a saved tool or code to an MCP CallToolResult. A run
// validates the arguments, executes the script in the sandbox with a time limit, makes the calls of
// the script, and builds the result from the record of the run.
//
// Begin with Composer.CallTool and Composer.Eval, and with the table of rows between a script and
// the servers in stack.go.
//
// JSON of upstreams and scripts stays raw bytes: numbers are never converted to float64 and back.
package compose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/guard/permissions"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Sandbox runs scripts; see sandbox.Sandbox.
type Sandbox interface {
	// Ready returns a channel that is closed once the guest is compiled.
	Ready() <-chan struct{}
	Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error)
	// Compute is for work of the host for a run.
	Compute(ctx context.Context, name string, account *sandbox.Account) *sandbox.Compute
}

// Upstreams makes calls of upstream tools; see route.Router.
type Upstreams interface {
	// Ready waits until the server has started and the tools of the server are known; the error is
	// the reason why the server is down.
	Ready(ctx context.Context, origin route.Origin, server string) error
	CallUpstream(ctx context.Context, origin route.Origin, call route.ScriptCall) wire.Reply
}

// Gate decides which saved tools scripts may call; see route.Router.
type Gate interface {
	// Pass returns why a script may not call a saved tool, nil if the call is allowed, or the cause
	// of ctx. Pass may wait for a person.
	Pass(ctx context.Context, origin route.Origin, call route.ScriptCall) error
}

// Catalog knows the tools for scripts; see catalog.Catalog.
type Catalog interface {
	// Resolve finds the real names for the names of a server and a tool in a script.
	Resolve(server, tool string, exact bool) (realServer, realTool string, err error)
	// Servers are the script names of all servers.
	Servers() []string
	// Disabled returns the script names of disabled servers. The error for a call of a disabled
	// server names the cause.
	Disabled() []string
	// InputSchema returns the raw inputSchema of a tool, by real names; nil without a schema.
	InputSchema(server, tool string) []byte
	// Remembered reports whether the known tools of a server, by its real name, were remembered
	// from before the start of the server.
	Remembered(server string) bool
}

// Options configure a Composer.
type Options struct {
	Sandbox   Sandbox
	Catalog   Catalog
	Upstreams Upstreams
	// Definitions has the definitions of the tools in Catalog, from which permissions are
	// derived; nil: they are not known.
	Definitions permissions.Pinned
	// See returns the permissions of a saved tool after looking at the definitions of a server's
	// tools that have not been looked at since the tool was imported; see tools.Store.See. With
	// nil, the definitions are not looked at.
	See func(tool string, p *tools.Permissions, server string) (*tools.Permissions, error)
	// Hides reports whether the subject of a target of permissions is hidden from clients. Errors
	// do not name hidden targets. With nil, nothing is hidden.
	Hides func(target string) bool
	// Mocked reports whether mocks answer all calls. Mocks may call tools by their script names.
	Mocked bool
	// Saved has the tools that scripts can call as tools.NAME; nil is none.
	Saved Saved
	// AgentTools returns the names of tools in code that only agents can call. The error for a
	// script with a call of an agent's tool names the cause. Nil is no agents' tools.
	AgentTools func(code string) []string
	// Journal opens the record of each run. If Journal returns an error, the script is not run. Nil
	// keeps records in memory while they are needed.
	Journal func(journal.Begin) (*journal.Run, error)
	// Moment returns the time and the seed of each run. Nil is the present time and a
	// seed by chance.
	Moment func() Moment
	// Recorded returns the record of a run that a client continues, perhaps in another process. Nil
	// is no records.
	Recorded func(id string) (journal.Record, error)
	// Claims decides which process continues a run. With nil, only this process does.
	Claims Claims
	// Chain returns the records of a run and of the runs that continue it; nil if the disk has
	// none.
	Chain func(id string) (journal.Chain, error)
	// Asked keeps the records of runs that clients can continue; nil is a new Asked.
	Asked *Asked
	// Durable keeps the logs of durable runs; nil is no durable runs. Durable needs Journal to
	// write to disk, where results are kept.
	Durable *durable.Runs
	// Idempotent reports whether a call of a tool, by real names, can be made again without
	// harm; nil: none can.
	Idempotent func(server, tool string) bool
	// Confirm asks a person whether a call is made again that may have been made before; see
	// route.Router.Confirm. With nil, no person can be asked.
	Confirm func(ctx context.Context, origin route.Origin, call route.ScriptCall, rule, reason string) error
	// Denies returns why a client may no longer call a saved tool with a continued durable run,
	// given the raw arguments of the call; nil if the client may. A nil function denies nothing.
	Denies func(origin route.Origin, tool string, args []byte) error
	// Gate decides which saved tools scripts may call; nil: all of them. Calls of
	// upstreams' tools are decided about by Upstreams.
	Gate Gate
	// Flow follows the labels of answers; nil: nothing does.
	Flow *Flow
	// Schemas keeps the compiled schemas of upstreams' tools; nil is a new store.
	Schemas *tools.Schemas
	// Reaches keeps the calls that scripts can make; nil is a new store.
	Reaches *Reaches
	// Observer sees the runs; nil is no observer.
	Observer Observer
	// Listeners knows which clients get the logs of scripts; nil is none.
	Listeners Listeners
	// Log gets a line per run, without params or results: of level info if the run failed,
	// otherwise debug. Nil is slog.Default().
	Log *slog.Logger
	// Timeout is the time limit of a run, including the wait for a slot; 0 is DefaultTimeout.
	Timeout time.Duration
	// Limits are the limits of a run; 0 is the sandbox's default. Saved tools can have lower
	// limits.
	Limits sandbox.Limits
	// Parallel is how many calls of a run may wait for answers at the same time; 0 is
	// DefaultParallel.
	Parallel int
	// UndoTimeout is the time limit of all calls together that undo a failed run; 0 is
	// DefaultUndoTimeout.
	UndoTimeout time.Duration
	// Debug puts script backtraces into errors.
	Debug bool
	// Calls is the amount of detail about a run's calls in the result.
	Calls Detail
	// Structured makes all results have structuredContent.
	Structured bool
	// Whole makes results for people and programs, not for models: structuredContent
	// always has the result, all calls, and the whole log.
	Whole bool
	// Executed, if set, is called after each run of a saved tool. Executed must not block.
	Executed func(tool string, at time.Time)
}

// Claims are the rights to continue runs; see journal.Log.
type Claims interface {
	// Claim takes the right to continue a run. The error is journal.ErrClaimed if a process already
	// has the right, and ErrUndecided if the owner is not known now.
	Claim(id string) error
	// Release gives the right back.
	Release(id string) error
}

// The defaults of Options.
const (
	DefaultTimeout  = 30 * time.Second
	DefaultParallel = 16

	DefaultUndoTimeout = 10 * time.Second
)

// EvalName is the name of unsaved code: the name of the built-in tool.
const EvalName = "eval_starlark"

// Composer runs composite calls. A Composer is safe for concurrent use.
type Composer struct {
	cfg              Options
	progressInterval time.Duration
	asked            *Asked
	reaches          *Reaches
}

// New makes a Composer.
func New(cfg Options) *Composer {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = DefaultParallel
	}
	if cfg.UndoTimeout <= 0 {
		cfg.UndoTimeout = DefaultUndoTimeout
	}
	if cfg.Journal == nil {
		cfg.Journal = func(b journal.Begin) (*journal.Run, error) { return journal.Open(b), nil }
	}
	if cfg.Moment == nil {
		cfg.Moment = PresentMoment
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Asked == nil {
		cfg.Asked = &Asked{}
	}
	if cfg.Schemas == nil {
		cfg.Schemas = tools.NewSchemas(tools.DefaultSchemas)
	}
	if cfg.Reaches == nil {
		cfg.Reaches = &Reaches{}
	}
	cfg.Limits = cfg.Limits.WithDefaults()
	return &Composer{cfg: cfg, progressInterval: progressInterval, asked: cfg.Asked, reaches: cfg.Reaches}
}

// CallTool answers a tools/call of the saved tool called name; see CallSaved. CallTool implements
// route.Handler.
func (c *Composer) CallTool(ctx context.Context, name string, call route.Call) wire.Reply {
	def, err := c.cfg.Saved.Get(name)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "unknown tool: %s (it was deleted)", name).Raw()}
	case err != nil:
		return wire.Reply{Result: (&Failure{Type: abi.ErrValidation, Message: err.Error()}).Result()}
	case call.Version != "" && def.Hash() != call.Version:
		return wire.Reply{Result: (&Failure{Type: abi.ErrPermission, Message: changedSince(name)}).Result()}
	}
	return c.CallSaved(ctx, def, call)
}

// changedSince returns the reason why a saved tool is not run despite a permission.
func changedSince(name string) string {
	return fmt.Sprintf("saved tool %q was changed after its call was permitted (call it again)", name)
}

// VersionOf returns the policy.Request.Version of a saved tool.
func VersionOf(saved Saved, name string) string {
	def, err := saved.Get(name)
	if err != nil {
		return "none" // different from the version of any tool
	}
	return def.Hash()
}

// CallSaved answers a tools/call of the saved tool def. The reply is always a
// CallToolResult; for a failure, with isError. CallSaved returns soon after ctx ends.
func (c *Composer) CallSaved(ctx context.Context, def tools.Definition, call route.Call) wire.Reply {
	args, ok := wire.Get(call.Params, "arguments")
	if !ok || string(args) == "null" {
		args = []byte("{}")
	}
	return c.answer(ctx, beginning{def: def, saved: true, args: args, call: call})
}

// Eval runs unsaved code. params is a raw JSON object, nil counts as an empty object. The reply is
// like the reply of CallSaved.
func (c *Composer) Eval(ctx context.Context, code string, params []byte, call route.Call) wire.Reply {
	if params == nil {
		params = []byte("{}")
	}
	return c.answer(ctx, beginning{def: tools.Definition{Name: EvalName, Code: code}, args: params, call: call})
}

// answer makes a run, and returns the reply for its client.
func (c *Composer) answer(ctx context.Context, b beginning) wire.Reply {
	if f := c.ready(ctx); f != nil {
		return wire.Reply{Result: f.Result()}
	}
	var f *Failure
	if b.before, f = c.resume(b.def, b.call.Resume); f != nil {
		return wire.Reply{Result: f.Result()}
	}
	if b.saved {
		b.def = c.permitted(ctx, b.def)
	}
	b.meta = forwardMeta(b.call.Params)
	r, f := c.newRun(b)
	if f != nil {
		return wire.Reply{Result: f.Result()}
	}
	if b.saved && c.isDurable(b.def) {
		return r.answerDurable(ctx, b)
	}
	ctx, end := r.plant(ctx, b, &tree{})
	defer end()
	out, f := r.script(ctx, b)
	return r.finish(ctx, out, f)
}

// plant makes the run the root of a tree, which may have a log or a stage already. The context is
// for the script; the caller calls end after the run.
func (r *run) plant(ctx context.Context, b beginning, t *tree) (_ context.Context, end func()) {
	r.tree = r.newTree(b.call, t)
	r.tree.flow = r.followed(ctx)
	ctx, asked := r.tree.asking(r.observe(ctx), b)
	r.build()
	return ctx, func() {
		asked()
		r.tree.flow.Close()
	}
}

// script runs the script of the root of a tree.
func (r *run) script(ctx context.Context, b beginning) (sandbox.Outcome, *Failure) {
	if b.saved {
		r.chain = []string{b.def.Name}
		return r.saved(ctx, b.def, b.args)
	}
	return r.unsaved(ctx, b.def.Code, b.args)
}

// unsaved runs code with params of a client.
func (r *run) unsaved(ctx context.Context, code string, params []byte) (sandbox.Outcome, *Failure) {
	params, ok := clean(params)
	if !ok {
		return sandbox.Outcome{}, tooDeep("params")
	}
	if !wire.IsObject(params) {
		return sandbox.Outcome{}, &Failure{Type: abi.ErrValidation, Message: "params must be a JSON object"}
	}
	limited, cancel := r.scriptContext(ctx)
	defer cancel()
	return r.execute(ctx, limited, code, params, nil)
}

// ready waits for the guest, so that the compilation does not count against the time limit of the
// first run.
func (c *Composer) ready(ctx context.Context) *Failure {
	select {
	case <-c.cfg.Sandbox.Ready():
		return nil
	case <-ctx.Done():
		return contextFailure(ctx)
	}
}

// beginning describes a run before the run begins.
type beginning struct {
	def        tools.Definition
	saved      bool   // def is a saved tool; otherwise the code is not saved
	args, meta []byte // raw; meta is for the calls of the run
	call       route.Call
	parent     *journal.Parent // the call of a script that the run answers; nil for the root of a tree
	before     *resumed        // the run that this run continues; nil for none
	stage      Stage           // nil unless the run is planned or carries out a plan
	at         *Moment         // nil: the moment of the stage, or the present
}

// newRun opens a run and the record of the run.
func (c *Composer) newRun(b beginning) (*run, *Failure) {
	def, call, parent, before, stage := b.def, b.call, b.parent, b.before, b.stage
	r := &run{
		Composer: c, tool: def.Name, origin: call.Origin, meta: b.meta,
		budget: c.budget(def.Limits), servers: c.names(def.Code), agentTools: c.agentTools(def.Code),
		permitted: &permitted{Composer: c, tool: def.Name},
	}
	if call.Progress != nil {
		r.progress = &progress{send: call.Progress, interval: c.progressInterval}
	}
	switch {
	case b.at != nil:
		r.moment = *b.at
	case stage == nil:
		r.moment = c.cfg.Moment()
	default:
		r.moment = stage.Moment()
	}
	begin := journal.Begin{
		Definition: def, Saved: b.saved, Params: b.args, Meta: r.meta, Limits: r.budget.record(),
		Guest: sandbox.GuestDigest(), Client: clientOf(call.Origin), Parent: parent,
	}
	if before != nil {
		begin.Continues, begin.ContinuesHead, begin.Elapsed = before.rec.ID, before.rec.Head, before.elapsed()
		begin.First = firstOf(before.rec)
		r.continueFrom(before)
		if before.state != nil {
			r.budget = (&ReplayRun{Begin: before.rec.Begin}).budget()
			begin.Limits = r.budget.record()
		}
		if before.state != nil && parent == nil {
			begin.Continues, begin.ContinuesHead = before.state.LastRecord, "" // the process of the run before died
		}
	}
	if stage != nil {
		plan := stage.Plan()
		begin.Plan, r.marker = &plan, plan.Marker
	}
	begin.Now, begin.Seed, begin.Servers, begin.AgentTools = r.moment.Now, r.moment.Seed, r.servers, r.agentTools
	var err error
	r.journal, err = c.cfg.Journal(begin)
	if err != nil {
		if parent == nil {
			c.release(before)
		}
		return nil, &Failure{Type: abi.ErrResource, Message: fmt.Sprintf("%s was not run: %v", def.Name, err)}
	}
	if parent == nil && call.Began != nil && r.journal.OnDisk() {
		call.Began(r.journal.ID(), r.journal.Start())
	}
	return r, nil
}

// agentTools returns the tools in code that only agents can call.
func (c *Composer) agentTools(code string) []string {
	if c.cfg.AgentTools == nil {
		return nil
	}
	return c.cfg.AgentTools(code)
}

// clientOf returns the sender of a request, for the journal.
func clientOf(origin route.Origin) journal.Client {
	if origin == nil {
		return journal.Client{}
	}
	info, _ := wire.Get(origin.Client(), "clientInfo")
	name, _ := wire.GetString(info, "name")
	version, _ := wire.GetString(info, "version")
	return journal.Client{Session: origin.Session().ID(), Name: name, Version: version, Token: origin.Session().TokenName()}
}

// tooDeep returns the failure for JSON of a client with too deep nesting.
func tooDeep(what string) *Failure {
	return &Failure{
		Type: abi.ErrValidation, Message: fmt.Sprintf("%s: nested deeper than %d levels, a fixed limit", what, abi.MaxDepth),
		Limit: abi.LimitDepth, Value: abi.MaxDepth,
	}
}

// violation returns the failure for a value that does not match the schema.
func violation(what string, err error) *Failure {
	var v *tools.ValidationError
	if errors.As(err, &v) {
		return &Failure{Type: abi.ErrValidation, Message: what, Violations: v.Violations}
	}
	return &Failure{Type: abi.ErrValidation, Message: what + ": " + err.Error()}
}
