// Package host puts the product together: it builds the parts of a running
// proxy from a configuration, in an order in which each part finds what it
// needs, and takes them down again in the reverse order.
//
//	host.go        Host: start and shutdown
//	serve.go       sessions over stdio, over HTTP, and in the same process
//	backend.go     what sessions show
//	upstreams.go   connections to upstreams, shared or of one session
//	slot.go        one upstream that runs, or sleeps until it is needed
//	health.go      how upstreams are, when somebody asks
//	absent.go      why an upstream is not there, for whoever wants something of it
//	memory.go      what upstreams had when they ran last
//	record.go      writing down what goes through, in the journal
//	hello.go       what upstreams are told in the handshake
//	reload.go      another configuration for a Host that runs
//	changes.go     how two configurations differ
//	parts.go       the Host's parts, for smoke checks
//	scripts.go     looking at scripts that are not run, and what they can call
//	composites.go  saved tools as entries of the catalog, and their calls
//	instructions.go  what models are told of the product
//
// Packages below host: config (settings), wire (raw JSON-RPC), front (sessions
// with clients), upstream (connections to servers), catalog (the namespaced
// view), route (requests in flight), compose (composite calls), manage
// (built-in tools), health (checks of upstreams), journal (the record of a run), sandbox (wasm instances),
// budget (memory that all of them share), mcptest (raw peers for tests).
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
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Name is how the product calls itself towards clients and upstreams.
const Name = "mcp-metatool"

// Options of a Host.
type Options struct {
	// Version of the product.
	Version string
	// Clients says who will be behind the sessions.
	Clients Clients
	// Log gets everything worth knowing. It must mask the configuration's
	// secrets itself (config.NewMaskingHandler).
	Log *slog.Logger
	// Whole makes results of scripts for people and programs, see
	// compose.Options.Whole.
	Whole bool
	// CacheDir keeps compiled guests between runs; "" for none.
	CacheDir string
	// Sandbox is one that others use too, and that Close leaves to them; nil: the
	// Host makes one of its own.
	Sandbox *sandbox.Sandbox
}

// Host is a running proxy. Its methods are safe for concurrent use.
type Host struct {
	opts Options
	now  atomic.Pointer[settings]
	web  atomic.Pointer[streamable.Handler] // nil unless ServeHTTPOn runs

	budget    *budget.Budget
	sandbox   *sandbox.Sandbox
	store     *tools.Store
	catalog   *catalog.Catalog
	router    *route.Router
	upstreams *upstreams
	memory    *memory
	recorder  *recorder

	refreshing sync.Mutex // makes one refresh of the composites at a time
	reloading  sync.Mutex // makes one Reload at a time
}

// New starts everything that a proxy has but sessions, and returns at once:
// upstreams connect and the guest is compiled in the background. The caller
// must Close the Host.
func New(cfg *config.Config, opts Options) (*Host, error) {
	h := &Host{opts: opts}
	built := make(chan struct{})
	defer close(built)
	store, err := tools.OpenStore(cfg.Store.Dir, tools.StoreOptions{
		Log: opts.Log, OnChange: func() { <-built; h.refreshComposites() },
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	h.store = store
	if h.sandbox = opts.Sandbox; h.sandbox == nil {
		h.sandbox = sandbox.New(sandbox.Options{
			CacheDir: opts.CacheDir, Log: opts.Log, Budget: budget.New(int64(cfg.Execution.MaxTotalMemory)),
			MaxConcurrent: cfg.Execution.MaxConcurrent, MaxQueued: cfg.Execution.MaxQueued,
		})
	}
	h.budget = h.sandbox.Budget()
	h.memory = &memory{dir: filepath.Join(cfg.Store.Dir, "servers"), log: opts.Log}
	h.recorder = newRecorder(h, cfg)
	h.upstreams = newUpstreams(h)
	h.catalog = catalog.New(sources(cfg), opts.Log, func(surface wire.Surface) { h.router.Changed(surface) })
	h.router = route.New(route.Options{
		Catalog: h.catalog, Upstreams: h.upstreams, Instructions: instructions,
		Settled: h.settled, Started: h.started, Absences: h, Refresh: h.refreshComposites, Observer: h.recorder, Log: opts.Log,
	})
	h.now.Store(h.settings(cfg))
	h.router.Register(catalog.Builtin, builtins{h})
	h.router.Register(catalog.Composite, composites{h})
	h.catalog.SetBuiltins(h.now.Load().manager.Entries())
	h.refreshComposites()
	h.upstreams.apply(cfg)
	return h, nil
}

// settings is a configuration in force, with what is made anew for each.
type settings struct {
	cfg      *config.Config
	options  compose.Options // of composer
	composer *compose.Composer
	manager  *builtin.Handler
}

// settings makes what goes with a configuration. The catalog has its sources
// already.
func (h *Host) settings(cfg *config.Config) *settings {
	options := compose.Options{
		Sandbox: h.sandbox, Catalog: h.catalog, Upstreams: h.router, Log: h.opts.Log,
		Timeout: cfg.Execution.Timeout, Limits: limits(cfg.Execution), Debug: cfg.Debug,
		Parallel: cfg.Execution.MaxParallel, UndoTimeout: cfg.Execution.UndoTimeout, Saved: h.store, Listeners: h.router,
		Executed: h.store.RecordExecution, Journal: h.recorder.log.Open,
		Calls: details[cfg.Execution.ToolCalls], Whole: h.opts.Whole,
	}
	composer := compose.New(options)
	about := builtin.Options{
		Store: h.store, Catalog: h.catalog, Composer: composer, Log: h.opts.Log, OnChange: h.refreshComposites,
		Health: h, Directory: h.catalog, Settled: h.settled, Absences: h, SavedInScripts: true, Runs: h.recorder.runs(cfg),
	}
	if cfg.Builtins.TestTool {
		about.Stage = func(mocks *cassette.Cassette, open func(journal.Begin) (*journal.Run, error)) builtin.Stage {
			dry := options
			dry.Catalog, dry.Upstreams, dry.Journal, dry.Executed = mocks.Over(h.catalog), mocks, open, nil
			dry.Structured = true // what became of the mocks stands there
			return compose.New(dry)
		}
	}
	manager := builtin.New(about)
	return &settings{cfg: cfg, options: options, composer: composer, manager: manager}
}

// LimitHeap has the whole process keep its heap within what max_total_memory leaves
// of the machine's or container's memory; see budget.Budget.LimitHeap.
func (h *Host) LimitHeap() { h.budget.LimitHeap() }

// config is the configuration in force.
func (h *Host) config() *config.Config { return h.now.Load().cfg }

// details are what settings of tool_calls mean.
var details = map[config.ToolCalls]compose.Detail{
	config.ToolCallsShort: compose.Short, config.ToolCallsFull: compose.Full, config.ToolCallsNone: compose.None,
}

func limits(e config.Execution) sandbox.Limits {
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

// The end of the upstreams is bounded by shutdownTime, that of the rest by
// restTime, so that with the end of a session (front.Session.Serve) all is over
// within five seconds of a signal.
const (
	shutdownTime = 2300 * time.Millisecond
	restTime     = 500 * time.Millisecond
)

func (h *Host) closeSandbox() error {
	if h.opts.Sandbox != nil {
		return nil
	}
	return h.sandbox.Close()
}

// Close ends the upstreams, all of their processes, and everything else. The
// sessions must have ended before; what a session left behind because its
// client does not read (front.ErrStalled) is not waited for, and neither is the
// compilation of the guest, which cannot be interrupted; it ends by itself.
func (h *Host) Close() error {
	defer h.recorder.close(h.opts.Log)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	h.router.Close()
	errs := h.upstreams.close(ctx)
	rest := make(chan error, 1)
	go func() { rest <- errors.Join(h.store.Close(), h.closeSandbox()) }()
	timer := time.NewTimer(restTime)
	defer timer.Stop()
	select {
	case err := <-rest:
		return errors.Join(append(errs, err)...)
	case <-timer.C:
	}
	select {
	case <-h.sandbox.Ready():
		errs = append(errs, errors.New("shutdown: a run in the sandbox did not end in time"))
	default: // it is being compiled, and nothing runs
	}
	return errors.Join(errs...)
}
