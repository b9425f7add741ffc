// Package host builds a running proxy from a configuration. It is the composition
// root: it determines which part makes which others, in which order, and which part
// closes them.
//
//	host.go     Host: start, reload and shutdown
//	gate.go     which requests policy permits
//	audience.go what clients with narrowed rights get
//	serve.go    sessions over stdio, over HTTP, and in the same process
//	page.go     the page about the Host
//	pinning.go  the pins of a configuration
//	inspect.go  what commands and smoke checks need to know of a Host
//	plans.go    plans of composite calls
//	runs.go     what the router needs to know of runs
//	durable.go  runs whose process has died
//	sessions.go HTTP sessions that go on in another replica
//	peers.go    how other replicas of a fleet are reached
//	shared.go   what a replica does with documents of its fleet in the background
//	signing.go  the key that signs runs
//	records.go  the journal in the store of a fleet
//	recorder.go proxied calls in the journal, as configured
//	reconfig.go how two configurations differ, and what of it can be applied without a restart
//	saved.go    saved tools for commands
//	fleet.go    the store in NATS, and that in files to copy from and to (streams.go: what NATS may lose)
//	probes.go   /healthz and /readyz on the HTTP server
//	drain.go    a replica that is to end
//	approvals.go  how people are asked about calls
//	flow.go     information flow: shadows, and the labels of sessions (serverlabels.go: of servers)
//	observe.go  what telemetry needs to know of it
//
// The packages below host, from the client to the server: front (sessions with
// clients), route (requests in flight), catalog (the namespaced view), supervise
// (which upstreams run, and what they listed), upstream (connections to servers),
// wire (raw JSON-RPC). Composite tools: compose (composite calls), sandbox (wasm
// instances), builtin (built-in tools), journal (the record of runs and calls), ui (a
// page about all of it). For all of them: config (settings), budget (shared memory).
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/clients/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/home"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/journal/shared"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry"
	"github.com/mcp-metatool/mcp-metatool/host/ui"
)

// Name is the name of the product that clients and upstreams see.
const Name = "mcp-metatool"

// Clients says what clients a Host has; see supervise.Clients.
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
	// Clients says what clients there are.
	Clients Clients
	// Log gets all log records. It must mask the configuration's secrets itself
	// (config.NewMaskingHandler).
	Log *slog.Logger
	// Whole is compose.Options.Whole: results of scripts are for people and programs.
	Whole bool
	// CacheDir keeps compiled guests between runs; "" for none.
	CacheDir string
	// Sandbox is shared with others, and Close does not close it. Nil: the Host makes
	// its own.
	Sandbox *sandbox.Sandbox
	// DurableRuns returns what keeps the logs of durable runs in place of what would; nil: that
	// does.
	DurableRuns func(durable.Store) durable.Store
	// DurableTTL is how long a process has a durable run unless it says so again; 0 means
	// durable.DefaultTTL.
	DurableTTL time.Duration
	// NoScripts says that no script will run, so that a sandbox is not made ready.
	NoScripts bool
	// Idle says that perhaps no script will run, so that a sandbox is made ready only for the first.
	Idle bool
	// Telemetry follows requests and runs; nil: nothing does. Close does not close it.
	Telemetry *telemetry.Telemetry
	Runs      compose.Observer // sees the runs of scripts in place of Telemetry; nil: Telemetry does
	// Person, when set, decides about calls for which policy says "ask", in place of
	// clients and the queue of approvals.
	Person approval.Person

	newSandbox func(sandbox.Options) *sandbox.Sandbox                   // for tests; nil: sandbox.New
	streams    func(servers.Spec) (io.ReadCloser, io.WriteCloser, bool) // for tests; see servers.Options
}

// Host is a running proxy. Its methods are safe for concurrent use.
type Host struct {
	opts       Options
	pageAccess *ui.Access // for the page that ServeHTTPOn serves; nil for none
	now        atomic.Pointer[settings]
	web        atomic.Pointer[streamable.Handler] // nil unless ServeHTTPOn runs

	sandbox   *sandbox.Sandbox
	room      savedRoom
	shared    *savedTools                            // of all clients that do not have their own
	own       atomic.Pointer[map[string]*savedTools] // by the name of the token; the map does not change
	recorder  *recorder
	catalog   *catalog.Catalog
	pins      *pins.Keeper
	upstreams *supervise.Upstreams
	router    *route.Router
	sealer    *requeststate.Sealer
	gate      policyGate
	plans     *plan.Store
	asked     compose.Asked
	approvals *approval.Queue
	reaches   compose.Reaches
	durable   *durableRuns
	fleet     *fleet.Fleet    // nil without NATS
	ring      *sealed.Ring    // the keys of fleet
	peers     *peer.Link      // with the other replicas; nil without NATS
	inFleet   *sharedWork     // what is done in the background in a fleet
	homes     *home.Finder    // the same
	records   *shared.Journal // the journal in the store of fleet; nil without one
	drain     *drain

	flow    flowState
	parking stateless.Parking
	// searching and reading are the turns of work on lists and catalogs, and of reading the
	// journal.
	searching, reading *budget.Turns
	unwatched          func() // ends what telemetry asks
	// See the constants; tests on a busy machine give more.
	shutdownTime, restTime time.Duration

	built     chan struct{} // closed when New returns
	reloading reloading
}

// turnTime is how long a turn of such work lasts at most.
const turnTime = time.Minute

// New starts everything except sessions, and returns at once: upstreams connect and
// the guest is compiled in the background. The caller must Close the Host.
func New(cfg *config.Config, opts Options) (*Host, error) {
	h := &Host{opts: opts, built: make(chan struct{}), shutdownTime: shutdownTime, restTime: restTime, inFleet: newSharedWork(), drain: newDrain(),
		searching: budget.NewTurns(2*max(2, runtime.GOMAXPROCS(0)), turnTime), reading: budget.NewTurns(2, turnTime)}
	defer close(h.built)
	h.room = newSavedRoom(cfg, opts.Sandbox)
	if err := h.openFleet(cfg); err != nil {
		return nil, err
	}
	if err := h.openAll(cfg); err != nil {
		return nil, errors.Join(err, h.fleet.Close())
	}
	if h.sandbox = opts.Sandbox; h.sandbox == nil {
		newSandbox := opts.newSandbox
		if opts.NoScripts {
			newSandbox = sandbox.NewClosed
		} else if newSandbox == nil && opts.Idle {
			newSandbox = sandbox.NewIdle
		} else if newSandbox == nil {
			newSandbox = sandbox.New
		}
		h.sandbox = newSandbox(sandbox.Options{
			CacheDir: opts.CacheDir, Log: opts.Log, Budget: h.room.budget,
			MaxConcurrent: cfg.Execution.MaxConcurrent, MaxQueued: cfg.Execution.MaxQueued,
		})
	}
	h.connect(cfg)
	h.catalog.Narrow(h.rightsOf(cfg))
	h.openDurable(cfg)
	h.openFlow(cfg)
	h.now.Store(h.settings(cfg))
	h.router.Register(catalog.Builtin, handler(func(ctx context.Context, name string, call route.Call) wire.Reply {
		if p := h.now.Load().of(call.Origin); p != nil {
			return p.builtins.CallTool(ctx, name, call)
		}
		return noRights
	}))
	h.router.Register(catalog.Composite, handler(func(ctx context.Context, name string, call route.Call) wire.Reply {
		if p := h.now.Load().of(call.Origin); p != nil {
			return p.composer.CallTool(ctx, name, call)
		}
		return noRights
	}))
	h.setBuiltins()
	h.refresh(h.shared)
	for _, saved := range *h.own.Load() {
		h.refresh(saved)
	}
	h.keepRules(cfg)
	h.pins.Configure(h.pinSettings(cfg))
	h.unwatched = opts.Telemetry.Watch(h.state)
	h.upstreams.Apply(cfg) // last, so that everything exists when the first message of an upstream arrives
	h.continueRuns()
	h.onReplicas(h.approvals.Sweep, "the queue of approvals may have calls that do not wait any more")
	h.followDrain()
	h.onReplicas(h.reseal, "documents of the fleet are still sealed with an old key")
	return h, nil
}

// connect makes the parts between clients and upstreams. Requests pass from the
// router to the upstreams; messages of upstreams come back through the callbacks.
func (h *Host) connect(cfg *config.Config) {
	log := h.opts.Log
	h.openRecords(cfg)
	h.recorder = newRecorder(cfg, recorderOptions{
		Fleet: h.journalFleet(), Signer: h.signer,
		Announce: func(level, logger, text string) { h.router.Announce(level, logger, text) },
		Logger:   Name + "/journal", Log: log,
	})
	h.catalog = catalog.New(sources(cfg), log, func(s *catalog.Scope, surface wire.Surface, notice []byte) { h.router.Changed(s, surface, notice) })
	h.pins = pins.NewKeeper(pins.Options{ReadOnly: h.opts.Clients == NoClient, OnChange: h.catalog.Recheck, Log: log})
	h.catalog.SetPins(h.pins)
	h.upstreams = supervise.New(cfg, supervise.Options{
		Clients: h.opts.Clients, Name: Name, Version: h.opts.Version, Dir: filepath.Join(cfg.Store.Dir, "servers"),
		Catalog: h.catalog, Pins: h.pins, Budget: h.sandbox.Budget(), Observer: h.opts.Telemetry.Upstreams(), Log: log, Streams: h.opts.streams,
		Receiver: func(server string, own route.Session) supervise.Receiver { return h.router.Peer(server, own) },
	})
	h.sealer, h.gate = h.newSealer(cfg), newPolicyGate(compile.Of(&cfg.Policy), h.newApprover(cfg))
	h.openPlans(cfg)
	h.router = route.New(route.Options{
		Catalog: h.catalog, Upstreams: h.upstreams, Availability: h.upstreams, Observer: h.recorder, Log: log,
		Instructions: h.instructions,
		Settled:      h.upstreams.Settled, Started: h.upstreams.Started, Refreshed: h.upstreams.Refreshed,
		Refresh: h.refreshSaved, RefreshCalled: h.refreshCalled, Sealer: h.sealer, Gate: h.gate, Listing: h.searching, Budget: h.sandbox.Budget(),
		Version: h.versionOf, Labels: h.answerLabels,
		Runs: runs{h}, Replicas: h.replicas(),
	})
}

// handler is a function that implements route.Handler.
type handler func(ctx context.Context, name string, call route.Call) wire.Reply

// CallTool implements route.Handler.
func (f handler) CallTool(ctx context.Context, name string, call route.Call) wire.Reply {
	return f(ctx, name, call)
}

// settings is the current configuration with the parts that are made for each
// configuration.
type settings struct {
	cfg   *config.Config
	*part // for clients whose rights are not narrowed
	// narrowed are the parts for other clients, by bearer.Rights.View, and before those of
	// the configuration before, until nobody has these rights any more.
	narrowed, before map[string]*part
}

// part answers calls of our own tools for clients with the same rights.
type part struct {
	options  compose.Options // of composer
	composer *compose.Composer
	planner  *plan.Planner
	builtins *builtin.Handler
}

// noRights is the reply to a client whose token is no longer valid.
var noRights = wire.Reply{Error: wire.Errorf(wire.CodeInternal, "the token of this client is no longer valid").Raw()}

// settings makes the settings of a configuration. Its sources and Scopes must have been
// set in the catalog.
func (h *Host) settings(cfg *config.Config) *settings {
	s := &settings{cfg: cfg, part: h.part(cfg, h.everybody()), narrowed: map[string]*part{}}
	for _, a := range h.audiences(h.rightsOf(cfg)) {
		s.narrowed[a.rights.View()] = h.part(cfg, a)
	}
	if now := h.now.Load(); now != nil {
		s.before = now.narrowed
	}
	return s
}

// part makes the part of the settings for clients with the same rights.
func (h *Host) part(cfg *config.Config, of audience) *part {
	saved := of.store()
	options := compose.Options{
		Sandbox: h.sandbox, Catalog: of, Upstreams: h.router, Log: h.opts.Log,
		Timeout: cfg.Execution.Timeout, Limits: RunLimits(cfg.Execution), Debug: cfg.Debug,
		Parallel: cfg.Execution.MaxParallel, UndoTimeout: cfg.Execution.UndoTimeout, Saved: saved, Listeners: h.router,
		AgentTools: builtin.Mentioned,
		Executed:   saved.RecordExecution, Journal: h.recorder.Journal().Open,
		Calls: details[cfg.Execution.ToolCalls], Whole: h.opts.Whole, Asked: &h.asked, Schemas: h.room.schemas,
		Observer: h.opts.Runs, Gate: h.router, Definitions: of, Reaches: &h.reaches, See: h.see(of), Hides: of.hides,
		Flow: h.flowOf(cfg, of), Durable: h.durable.Runs, Idempotent: h.isIdempotent(cfg.Durable), Confirm: h.router.Confirm, Denies: h.denies,
	}
	if options.Observer == nil {
		options.Observer = h.opts.Telemetry.Runs()
	}
	h.setRecords(&options)
	composer := compose.New(options)
	planner := plan.New(plan.Options{
		Composer: composer, Router: h.router, Saved: saved, Definition: of.Definition, Store: h.plans,
		Guest: sandbox.GuestDigest(), Reads: cfg.Plan.Reads, Writes: cfg.Plan.Writes, Expires: cfg.Plan.Expires,
		Secret: secretIn(cfg.NewMasker()),
	})
	about := builtin.Options{
		Store: saved, Catalog: of, Composer: composer, Log: h.opts.Log, OnChange: func() { h.refresh(of.saved) },
		Health: h.upstreams, Problems: h.problems(of.rights), Directory: of, Settled: h.settled, Availability: h.upstreams, SavedInScripts: true,
		Searching: h.searching, Reading: h.reading,
		Switches: cfg.Builtins, Planner: toolPlanner{planner}, Gate: h.router, Hides: of.hides, Labels: clientLabels{h},
		DryRunner: func(mocks *cassette.Cassette, open func(journal.Begin) (*journal.Run, error)) builtin.Runner {
			dry := options
			dry.Catalog, dry.Upstreams, dry.Journal, dry.Executed = mocks.Over(of), mocks, open, nil
			dry.Recorded, dry.Claims, dry.Asked, dry.Observer, dry.Gate = nil, nil, nil, nil, nil // mocks answer
			dry.Durable, dry.Flow = nil, nil                                                      // mocks are no secrets
			dry.Mocked = true
			dry.Structured = true // the result says which mocks were used
			return compose.New(dry)
		},
	}
	if log := h.recorder.Journal(); log != nil {
		about.Runs = h.sessionRuns(log)
	}
	return &part{options: options, composer: composer, planner: planner, builtins: builtin.New(about)}
}

// settled waits until the catalog has the current lists of upstreams.
func (h *Host) settled(ctx context.Context) {
	h.upstreams.Settled(ctx)
	h.upstreams.Refreshed(ctx, nil, wire.Tools)
}

// details maps the values of tool_calls.
var details = map[config.ToolCalls]compose.Detail{
	config.ToolCallsShort: compose.Short, config.ToolCallsFull: compose.Full, config.ToolCallsNone: compose.None,
}

// RunLimits returns the configured limits of one run.
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

// config returns the current configuration.
func (h *Host) config() *config.Config { return h.now.Load().cfg }

// Reload switches to another configuration and returns how it differs from the
// previous one. Upstreams that were added are started. Those that were removed or
// changed finish their calls in flight and are then closed. Those that are started or
// reached in the same way as before are not interrupted. Sessions are notified of the
// lists that change.
//
// Settings that cannot change at run time keep their values. Reload does not wait for
// upstreams. The error is wire.ErrClosed if the Host is closed.
func (h *Host) Reload(cfg *config.Config) (Changes, error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	if err := brokenUpstreams(h.config(), cfg); err != nil {
		return Changes{}, err // what works goes on
	}
	changes, cfg := compareConfigs(h.opts.Clients, h.config(), cfg)
	if h.ring != nil {
		if err := h.ring.Set(cfg.Store.Keys...); err != nil {
			return Changes{}, fmt.Errorf("keys in [store]: %w", err)
		}
		h.fleet.KeysChanged()
	}
	h.gate.SetPolicy(compile.Of(&cfg.Policy)) // first, so that nothing new is called before it is decided about
	// The sources are set before their upstreams start, because these may list at
	// once, and because names must no longer resolve to upstreams that are removed.
	rights := h.rightsOf(cfg)
	if err := h.openStores(cfg); err != nil {
		return Changes{}, err
	}
	h.catalog.SetSources(sources(cfg))
	h.catalog.Narrow(rights)
	h.pins.Configure(h.pinSettings(cfg))
	h.recorder.Configure(cfg)
	now := h.settings(cfg)
	h.now.Store(now)
	h.setBuiltins() // before somebody gets new rights
	for _, saved := range *h.own.Load() {
		h.refresh(saved)
	}
	h.keepRules(cfg)
	h.admit()
	h.durable.forgetLeft()
	if !h.upstreams.Apply(cfg) {
		return Changes{}, wire.ErrClosed
	}
	h.catalog.Keep(rights)
	h.closeStores(cfg)
	h.router.Recheck()
	return changes, nil
}

// admit sets who may connect to the HTTP front end to what the current configuration
// says. The caller holds h.reloading.
func (h *Host) admit() {
	if web := h.web.Load(); web != nil {
		web.SetAccess(access(h.config().HTTP))
	}
}

func access(settings config.HTTP) streamable.Access {
	return streamable.Access{
		Tokens: settings.Tokens, AllowedOrigins: settings.AllowedOrigins, AllowedHosts: settings.AllowedHosts,
	}
}

// LimitHeap limits the heap of the whole process to what max_total_memory leaves of
// the memory of the machine or container; see budget.Budget.LimitHeap.
func (h *Host) LimitHeap() { h.sandbox.Budget().LimitHeap() }

// shutdownTime bounds the shutdown of the upstreams, and restTime that of everything
// else. Together with the end of a session (front.Session.Serve), the shutdown takes
// less than five seconds after a signal.
const (
	shutdownTime = 2300 * time.Millisecond
	restTime     = 500 * time.Millisecond
)

// Close ends the upstreams, all of their processes, and everything else. The sessions
// must have ended before. Close does not wait for what a session left behind because
// its client does not read (front.ErrStalled), nor for the guest if it is just being
// compiled or freed, which ends by itself. Close may be called again, also
// concurrently; it then waits for what is left.
func (h *Host) Close() error {
	defer h.recorder.Close()
	h.unwatched()
	h.drain.close()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), h.shutdownTime)
	defer cancel()
	suspended := h.durable.close(ctx) // first, so that what ends now ends no run
	h.router.Close()
	closed := h.upstreams.Close(ctx)
	h.pins.Close()
	stored, boxed := inBackground(h.closeAll), inBackground(h.closeSandbox)
	ended, err := awaitUntil(time.Now().Add(h.restTime), boxed)
	if !ended && h.sandbox.Active() > 0 { // otherwise it is the end of compiling the guest, or of freeing it
		err = errors.New("shutdown: a run in the sandbox did not end in time")
	}
	closed = errors.Join(closed, err)
	// A busy disk must not cost the last counts: they may use the time of the upstreams.
	if ended, err = awaitUntil(begun.Add(h.shutdownTime+h.restTime), stored); !ended {
		err = errors.New("shutdown: the last executions of saved tools are not counted: the tool store is slow, or locked by another process")
	}
	h.homes.Close()
	h.peers.Close()
	h.recorder.Close()
	h.records.Close() // what the recorder has written last is shipped, too
	return errors.Join(suspended, closed, err, h.closeShared())
}

func (h *Host) closeSandbox() error {
	if err := h.flow.close(); err != nil {
		h.opts.Log.Warn("the end of information flow", "err", err)
	}
	if h.opts.Sandbox != nil {
		return nil
	}
	return h.sandbox.Close()
}
