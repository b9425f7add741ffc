// Package host builds a running proxy from a configuration. It is the composition
// root: it says who makes what, in which order, and who closes it. All work is
// done by the packages below it.
//
//	host.go     Host: start, reload and shutdown
//	serve.go    sessions over stdio, over HTTP, and in the same process
//	inspect.go  what commands and smoke checks look at
//
// The packages below host, from the client to the server: front (sessions with
// clients), route (requests in flight), catalog (the namespaced view), supervise
// (which upstreams run, and what they listed), upstream (connections to servers),
// wire (raw JSON-RPC). Composite tools: compose (composite calls), sandbox (wasm
// instances), builtin (built-in tools), journal and record (the record of runs and
// calls). For all of them: config and reconfig (settings and their changes), budget
// (shared memory), health (checks of upstreams). mcptest has raw peers for tests.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/front/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/reconfig"
	"github.com/mcp-metatool/mcp-metatool/host/record"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/supervise"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Name is how the product calls itself towards clients and upstreams.
const Name = "mcp-metatool"

// Clients says who is behind the sessions of a Host; see supervise.Clients.
type Clients = supervise.Clients

// The values of Clients.
const (
	NoClient    = supervise.NoClient    // commands
	OneClient   = supervise.OneClient   // stdio
	ManyClients = supervise.ManyClients // HTTP
)

// Options of a Host.
type Options struct {
	// Version of the product.
	Version string
	// Clients says who is behind the sessions.
	Clients Clients
	// Log gets everything worth knowing. It must mask the configuration's
	// secrets itself (config.NewMaskingHandler).
	Log *slog.Logger
	// Whole makes results of scripts for people and programs, see
	// compose.Options.Whole.
	Whole bool
	// CacheDir keeps compiled guests between runs; "" for none.
	CacheDir string
	// Sandbox, when set, is shared with others, and Close does not close it; nil:
	// the Host makes its own.
	Sandbox *sandbox.Sandbox
}

// Host is a running proxy. Its methods are safe for concurrent use.
type Host struct {
	opts Options
	now  atomic.Pointer[settings]
	web  atomic.Pointer[streamable.Handler] // nil unless ServeHTTPOn runs

	sandbox   *sandbox.Sandbox
	store     *tools.Store
	recorder  *record.Recorder
	catalog   *catalog.Catalog
	upstreams *supervise.Upstreams
	router    *route.Router

	refreshing sync.Mutex // makes one refresh of the saved tools at a time
	reloading  sync.Mutex // makes one Reload at a time
}

// New starts everything that a proxy has but sessions, and returns at once:
// upstreams connect and the guest is compiled in the background. The caller
// must Close the Host.
func New(cfg *config.Config, opts Options) (*Host, error) {
	h := &Host{opts: opts}
	built := make(chan struct{})
	defer close(built)
	var err error
	h.store, err = tools.OpenStore(cfg.Store.Dir, tools.StoreOptions{
		Log: opts.Log, OnChange: func() { <-built; h.refreshSaved() },
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if h.sandbox = opts.Sandbox; h.sandbox == nil {
		h.sandbox = sandbox.New(sandbox.Options{
			CacheDir: opts.CacheDir, Log: opts.Log, Budget: budget.New(int64(cfg.Execution.MaxTotalMemory)),
			MaxConcurrent: cfg.Execution.MaxConcurrent, MaxQueued: cfg.Execution.MaxQueued,
		})
	}
	h.connect(cfg)
	h.now.Store(h.settings(cfg))
	h.router.Register(catalog.Builtin, handler(func(ctx context.Context, name string, call route.Call) wire.Reply {
		return h.now.Load().builtins.CallTool(ctx, name, call)
	}))
	h.router.Register(catalog.Composite, handler(func(ctx context.Context, name string, call route.Call) wire.Reply {
		return h.now.Load().composer.CallTool(ctx, name, call)
	}))
	h.catalog.SetBuiltins(h.now.Load().builtins.Entries())
	h.refreshSaved()
	h.upstreams.Apply(cfg) // the first message of an upstream finds everything in place
	return h, nil
}

// connect makes what lies between clients and upstreams. Requests go down from
// the router to the upstreams; what upstreams send comes back by the callbacks.
func (h *Host) connect(cfg *config.Config) {
	log := h.opts.Log
	h.recorder = record.New(cfg, record.Options{
		Announce: func(level, logger, text string) { h.router.Announce(level, logger, text) },
		Logger:   Name + "/journal", Log: log,
	})
	h.catalog = catalog.New(sources(cfg), log, func(surface wire.Surface, notice []byte) { h.router.Changed(surface, notice) })
	h.upstreams = supervise.New(cfg, supervise.Options{
		Clients: h.opts.Clients, Name: Name, Version: h.opts.Version, Dir: filepath.Join(cfg.Store.Dir, "servers"),
		Catalog: h.catalog, Budget: h.sandbox.Budget(), Log: log,
		Receiver: func(server string, own route.Session) supervise.Receiver { return h.router.Peer(server, own) },
	})
	h.router = route.New(route.Options{
		Catalog: h.catalog, Upstreams: h.upstreams, Absences: h.upstreams, Observer: h.recorder, Log: log,
		Instructions: func(s route.Session) string { return builtin.Instructions(route.MaySave(s)) },
		Settled:      h.upstreams.Settled, Started: h.upstreams.Started, Refreshed: h.upstreams.Refreshed,
		Refresh: h.refreshSaved,
	})
}

// handler is a route.Handler.
type handler func(ctx context.Context, name string, call route.Call) wire.Reply

// CallTool implements route.Handler.
func (f handler) CallTool(ctx context.Context, name string, call route.Call) wire.Reply {
	return f(ctx, name, call)
}

// settings is the configuration in force, with what is made anew for each.
type settings struct {
	cfg      *config.Config
	options  compose.Options // of composer
	composer *compose.Composer
	builtins *builtin.Handler
}

// settings makes what belongs to a configuration. The catalog must have its
// sources already.
func (h *Host) settings(cfg *config.Config) *settings {
	options := compose.Options{
		Sandbox: h.sandbox, Catalog: h.catalog, Upstreams: h.router, Log: h.opts.Log,
		Timeout: cfg.Execution.Timeout, Limits: RunLimits(cfg.Execution), Debug: cfg.Debug,
		Parallel: cfg.Execution.MaxParallel, UndoTimeout: cfg.Execution.UndoTimeout, Saved: h.store, Listeners: h.router,
		AgentTools: builtin.Mentioned,
		Executed:   h.store.RecordExecution, Journal: h.recorder.Journal().Open,
		Calls: details[cfg.Execution.ToolCalls], Whole: h.opts.Whole,
	}
	composer := compose.New(options)
	about := builtin.Options{
		Store: h.store, Catalog: h.catalog, Composer: composer, Log: h.opts.Log, OnChange: h.refreshSaved,
		Health: h.upstreams, Directory: h.catalog, Settled: h.settled, Absences: h.upstreams, SavedInScripts: true,
		Switches: cfg.Builtins,
		DryRunner: func(mocks *cassette.Cassette, open func(journal.Begin) (*journal.Run, error)) builtin.Runner {
			dry := options
			dry.Catalog, dry.Upstreams, dry.Journal, dry.Executed = mocks.Over(h.catalog), mocks, open, nil
			dry.Structured = true // it tells which mocks were used
			return compose.New(dry)
		},
	}
	if log := h.recorder.Journal(); log != nil {
		about.Runs = builtin.JournalRuns{Dir: log.Dir(), Since: h.recorder.Start()}
	}
	return &settings{cfg: cfg, options: options, composer: composer, builtins: builtin.New(about)}
}

// settled waits until the catalog has what an agent expects to find there.
func (h *Host) settled(ctx context.Context) {
	h.upstreams.Settled(ctx)
	h.upstreams.Refreshed(ctx, nil, wire.Tools)
}

// details are what settings of tool_calls mean.
var details = map[config.ToolCalls]compose.Detail{
	config.ToolCallsShort: compose.Short, config.ToolCallsFull: compose.Full, config.ToolCallsNone: compose.None,
}

// RunLimits returns the limits of one run that settings say.
func RunLimits(e config.Execution) sandbox.Limits {
	return sandbox.Limits{
		Memory: e.MaxMemory, Fuel: e.MaxFuel, Calls: e.MaxCalls, Arguments: int(e.MaxArguments),
		Answer: int(e.MaxAnswer), Result: int(e.MaxResult), Logs: int(e.MaxLogs),
	}
}

func sources(cfg *config.Config) []catalog.Source {
	var sources []catalog.Source
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		sources = append(sources, catalog.Source{Server: u.Name, Prefix: u.Prefix, Exposes: u.Exposes, Hides: u.Hides, Disabled: u.Disabled})
	}
	return sources
}

// config is the configuration in force.
func (h *Host) config() *config.Config { return h.now.Load().cfg }

// refreshSaved brings the catalog up to date with the store.
func (h *Host) refreshSaved() {
	h.refreshing.Lock() // a slow refresh must not overwrite the result of a later one
	defer h.refreshing.Unlock()
	definitions := h.store.List()
	entries := make([]catalog.Entry, len(definitions))
	for i, d := range definitions {
		entries[i] = catalog.Entry{Name: d.Name, Definition: compose.ToolDefinition(d)}
	}
	h.catalog.SetComposites(entries)
}

// Reload puts another configuration in force, and says how it differs from the
// one before. Upstreams that were added are started, those that were removed or
// changed finish their calls in flight and are then closed, and those that are
// reached as before go on undisturbed, whatever they are called now. Sessions are
// notified of the lists that change.
//
// Settings that cannot change at run time keep their values. Reload does not wait
// for upstreams; the error is wire.ErrClosed once the Host is closed.
func (h *Host) Reload(cfg *config.Config) (reconfig.Changes, error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	changes, cfg := reconfig.Compare(h.opts.Clients, h.config(), cfg)
	// The sources come before their upstreams, which may list at once. And names
	// must no longer resolve to upstreams that are about to go.
	h.catalog.SetSources(sources(cfg))
	h.recorder.Configure(cfg)
	now := h.settings(cfg)
	h.now.Store(now)
	h.admit()
	if !h.upstreams.Apply(cfg) {
		return reconfig.Changes{}, wire.ErrClosed
	}
	h.catalog.SetBuiltins(now.builtins.Entries()) // they name the servers
	return changes, nil
}

// LimitHeap has the whole process keep its heap within what max_total_memory leaves
// of the machine's or container's memory; see budget.Budget.LimitHeap.
func (h *Host) LimitHeap() { h.sandbox.Budget().LimitHeap() }

// The end of the upstreams is bounded by shutdownTime, that of the rest by
// restTime, so that with the end of a session (front.Session.Serve) all is over
// within five seconds of a signal.
const (
	shutdownTime = 2300 * time.Millisecond
	restTime     = 500 * time.Millisecond
)

// Close ends the upstreams, all of their processes, and everything else. The
// sessions must have ended before; what a session left behind because its
// client does not read (front.ErrStalled) is not waited for, and neither is the
// compilation of the guest, which cannot be interrupted; it ends by itself. Close
// may be called again, also at the same time: it then waits for what is left.
func (h *Host) Close() error {
	defer h.recorder.Close()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	h.router.Close()
	closed := h.upstreams.Close(ctx)
	rest := make(chan error, 1)
	go func() { rest <- errors.Join(h.store.Close(), h.closeSandbox()) }()
	timer := time.NewTimer(restTime)
	defer timer.Stop()
	select {
	case err := <-rest:
		return errors.Join(closed, err)
	case <-timer.C:
	}
	select {
	case <-h.sandbox.Ready():
		return errors.Join(closed, errors.New("shutdown: a run in the sandbox did not end in time"))
	default: // it is being compiled, and nothing runs
		return closed
	}
}

func (h *Host) closeSandbox() error {
	if h.opts.Sandbox != nil {
		return nil
	}
	return h.sandbox.Close()
}
