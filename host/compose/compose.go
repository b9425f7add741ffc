// Package compose runs composite calls: a saved tool or a piece of code goes
// in, an MCP CallToolResult comes out. It validates the arguments, runs the
// script in the sandbox under a wall-clock limit, makes the calls the script
// asks for, and builds the result from the run's journal.
//
//	compose.go   Composer: saved tools, code to try
//	run.go       one run, how it ended
//	limits.go    what a run may use, and the failure when that is not enough
//	caller.go    the script's calls: resolve, route, record
//	composite.go saved tools that scripts call
//	undo.go      calls that undo what a failed run has done
//	schemas.go   checking the arguments of calls
//	checking.go  what checking may use: it is work of the run
//	meta.go      the _meta of calls
//	forward.go   the script's log, for the client too
//	content.go   content blocks that a script returns
//	answer.go    from an upstream's reply to the value a script sees
//	progress.go  one rising progress sequence out of many
//	result.go    the CallToolResult of a run
//	shorten.go   what a result tells of calls and log, in bounds
//	failure.go   Failure: an error as clients see it
//	check.go     checking a script on save, in the sandbox too
//	lint.go      what a script probably does not mean
//	define.go    the tool definition that agents see
//	build.go     building JSON out of raw pieces
//	replay.go    Replay: a recorded run once more, from its record alone
//
// JSON of upstreams and scripts stays raw bytes all the way: a number is never
// read as a float64 and written again.
package compose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Sandbox runs scripts; see sandbox.Sandbox.
type Sandbox interface {
	// Ready is closed once Run need not wait for the guest to be compiled.
	Ready() <-chan struct{}
	Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error)
	// Compute is for work of the host's own.
	Compute(ctx context.Context, name string, account *sandbox.Account) *sandbox.Compute
}

// Upstreams makes calls of upstream tools; see route.Router.
type Upstreams interface {
	// Ready waits until the server has started and its tools are known; the
	// error says why it is down.
	Ready(ctx context.Context, origin route.Origin, server string) error
	CallUpstream(ctx context.Context, origin route.Origin, server, tool string, params []byte, progress func(params []byte)) wire.Reply
}

// Catalog knows what scripts can call; see catalog.Catalog.
type Catalog interface {
	// Resolve finds the real names of what a script calls server and tool.
	Resolve(server, tool string, exact bool) (realServer, realTool string, err error)
	// Servers are the script names of all servers.
	Servers() []string
	// Disabled are the script names of servers that are configured and not to be
	// used: a call of one fails and says so.
	Disabled() []string
	// InputSchema is the raw inputSchema of a tool, by real names; nil when there
	// is none.
	InputSchema(server, tool string) []byte
	// Remembered tells whether what is known of a server's tools, by its real name,
	// is from a time before it was started.
	Remembered(server string) bool
}

// Options are what a Composer works with and under.
type Options struct {
	Sandbox   Sandbox
	Catalog   Catalog
	Upstreams Upstreams
	// Saved has the tools that scripts can call as tools.NAME; nil: none.
	Saved Saved
	// AgentTools returns the names of tools that code mentions and that agents can
	// call and scripts cannot. Scripts that call one are told so. Nil: there are no
	// such tools.
	AgentTools func(code string) []string
	// Journal opens the record of each run; an error of it is why the run may not
	// take place. Nil: records are kept while they are needed.
	Journal func(journal.Begin) (*journal.Run, error)
	// Listeners knows who is sent what scripts log; nil: nobody is.
	Listeners Listeners
	// Log gets one line per run, without params or results. Nil is
	// slog.Default().
	Log *slog.Logger
	// Timeout is the wall-clock limit of one run, the time it waits for its turn
	// included; 0 is DefaultTimeout.
	Timeout time.Duration
	// Limits of one run; what is zero is the sandbox's default. Saved tools can
	// have tighter ones.
	Limits sandbox.Limits
	// Parallel is how many calls of one run may be under way at once; 0 is
	// DefaultParallel.
	Parallel int
	// UndoTimeout is how long the calls may take, all together, that undo what a
	// failed run has done; 0 is DefaultUndoTimeout.
	UndoTimeout time.Duration
	// Debug puts script backtraces into errors.
	Debug bool
	// Calls is how much results tell of the calls of their runs.
	Calls Detail
	// Structured makes results always have structuredContent.
	Structured bool
	// Whole makes results for people and programs, not for models: structuredContent
	// has the result whatever it is, all calls, and the whole log.
	Whole bool
	// Executed, when set, is told of each run of a saved tool once its script
	// has ended. It must not block.
	Executed func(tool string, at time.Time)
}

// The defaults of Options.
const (
	DefaultTimeout  = 30 * time.Second
	DefaultParallel = 16

	DefaultUndoTimeout = 10 * time.Second
)

// EvalName is the name that code without a saved tool goes by.
const EvalName = "eval_starlark"

// Composer runs composite calls. It is safe for concurrent use.
type Composer struct {
	cfg              Options
	progressInterval time.Duration
	schemas          schemas // of upstream tools
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
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	cfg.Limits = cfg.Limits.WithDefaults()
	return &Composer{cfg: cfg, progressInterval: progressInterval}
}

// CallTool answers a tools/call of the saved tool called name; see CallSaved. It
// implements route.Handler.
func (c *Composer) CallTool(ctx context.Context, name string, call route.Call) wire.Reply {
	def, err := c.cfg.Saved.Get(name)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "unknown tool: %s (it was deleted)", name).Raw()}
	case err != nil:
		return wire.Reply{Result: (&Failure{Type: abi.ErrValidation, Message: err.Error()}).Result()}
	}
	return c.CallSaved(ctx, def, call)
}

// CallSaved answers a tools/call of the saved tool def. The reply is always a
// CallToolResult; what went wrong is told in an isError result. It stops as
// soon as ctx ends.
func (c *Composer) CallSaved(ctx context.Context, def tools.Definition, call route.Call) wire.Reply {
	args, ok := wire.Get(call.Params, "arguments")
	if !ok || string(args) == "null" {
		args = []byte("{}")
	}
	if f := c.ready(ctx); f != nil {
		return wire.Reply{Result: f.Result()}
	}
	r, f := c.newRun(def, true, args, forwardMeta(call.Params), call, nil)
	if f != nil {
		return wire.Reply{Result: f.Result()}
	}
	r.chain, r.tree = []string{def.Name}, c.newTree(r.budget.Limits, call)
	out, f := r.saved(ctx, def, args)
	return r.finish(ctx, out, f)
}

// Eval runs code that is not saved. params is a raw JSON object, nil counts as
// an empty one. The reply is like that of CallSaved.
func (c *Composer) Eval(ctx context.Context, code string, params []byte, call route.Call) wire.Reply {
	if params == nil {
		params = []byte("{}")
	}
	if f := c.ready(ctx); f != nil {
		return wire.Reply{Result: f.Result()}
	}
	r, f := c.newRun(tools.Definition{Name: EvalName, Code: code}, false, params, forwardMeta(call.Params), call, nil)
	if f != nil {
		return wire.Reply{Result: f.Result()}
	}
	r.tree = c.newTree(r.budget.Limits, call)
	out, f := r.unsaved(ctx, code, params)
	return r.finish(ctx, out, f)
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
	limited, cancel := r.clock(ctx)
	defer cancel()
	return r.execute(ctx, limited, code, params, nil)
}

// ready waits for the guest, so that its compilation does not count against
// the limit of whichever run comes first.
func (c *Composer) ready(ctx context.Context) *Failure {
	select {
	case <-c.cfg.Sandbox.Ready():
		return nil
	case <-ctx.Done():
		return contextFailure(ctx)
	}
}

// newRun opens the run of a tool with raw arguments. meta is for the calls it
// makes; parent is the call of a script that it answers, nil for none.
func (c *Composer) newRun(def tools.Definition, saved bool, args, meta []byte, call route.Call, parent *journal.Parent) (*run, *Failure) {
	r := &run{
		Composer: c, tool: def.Name, origin: call.Origin, meta: meta,
		budget: c.budget(def.Limits), servers: c.names(), agentTools: c.agentTools(def.Code),
	}
	if call.Progress != nil {
		r.progress = &progress{send: call.Progress, interval: c.progressInterval}
	}
	var err error
	r.journal, err = c.cfg.Journal(journal.Begin{
		Definition: def, Saved: saved, Params: args, Meta: r.meta, Limits: r.budget.record(), Servers: r.servers, AgentTools: r.agentTools,
		Guest: sandbox.GuestDigest(), Client: clientOf(call.Origin), Parent: parent,
	})
	if err != nil {
		return nil, &Failure{Type: abi.ErrResource, Message: fmt.Sprintf("%s was not run: %v", def.Name, err)}
	}
	return r, nil
}

// agentTools returns the tools that code mentions and that only agents can call.
func (c *Composer) agentTools(code string) []string {
	if c.cfg.AgentTools == nil {
		return nil
	}
	return c.cfg.AgentTools(code)
}

// clientOf is who has sent a request, for the journal.
func clientOf(origin route.Origin) journal.Client {
	if origin == nil {
		return journal.Client{}
	}
	s := origin.Session()
	info, _ := wire.Get(s.Client(), "clientInfo")
	name, _ := wire.GetString(info, "name")
	version, _ := wire.GetString(info, "version")
	return journal.Client{Session: s.ID(), Name: name, Version: version}
}

// tooDeep is the failure for JSON of a client.
func tooDeep(what string) *Failure {
	return &Failure{
		Type: abi.ErrValidation, Message: fmt.Sprintf("%s: nested deeper than %d levels, a fixed limit", what, abi.MaxDepth),
		Limit: abi.LimitDepth, Value: abi.MaxDepth,
	}
}

// violation is the failure for what a schema says of a value.
func violation(what string, err error) *Failure {
	var v *tools.ValidationError
	if errors.As(err, &v) {
		return &Failure{Type: abi.ErrValidation, Message: what, Violations: v.Violations}
	}
	return &Failure{Type: abi.ErrValidation, Message: what + ": " + err.Error()}
}
