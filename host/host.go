// Package host builds a running proxy from a configuration: it makes the parts in order, connects
// them, applies a changed configuration, and closes them. Begin with Host and New.
//
// The packages below, from the client to the server: clients (sessions), proxy/route (requests in
// flight), proxy/catalog (the namespaced lists), servers/supervise (running upstreams), servers
// (connections to servers), mcp/wire (raw JSON-RPC). Composite tools: script/compose (composite
// calls), script/sandbox (wasm instances), proxy/builtin (built-in tools), journal (the record of
// runs and calls), ui (the page). For all of them: config (settings), mcp/budget (shared memory).
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

// Name is the product name that clients and upstreams see.
const Name = "mcp-metatool"

// Clients is the kind of clients of a Host; see supervise.Clients.
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
	// Clients is the kind of clients of the Host.
	Clients Clients
	// Log gets all log records, and must mask the configuration's secrets
	// (config.NewMaskingHandler).
	Log *slog.Logger
	// Whole is compose.Options.Whole: results of scripts are for people and programs.
	Whole bool
	// CacheDir keeps compiled guests between runs; "" for none.
	CacheDir string
	// Sandbox is a shared sandbox, which Close leaves open. Nil: the Host makes a sandbox.
	Sandbox *sandbox.Sandbox
	// DurableRuns wraps or replaces the store of the logs of durable runs; nil: the store is used
	// as given.
	DurableRuns func(durable.Store) durable.Store
	// DurableTTL is the life of a lease of a durable run without renewal; 0 means
	// durable.DefaultTTL.
	DurableTTL time.Duration
	// NoScripts promises that no script will run, so that New prepares no sandbox.
	NoScripts bool
	// Idle expects no script, so that New prepares a sandbox only for the first script.
	Idle bool
	// Telemetry follows requests and runs; nil for none. Close does not close Telemetry.
	Telemetry *telemetry.Telemetry
	Runs      compose.Observer // sees the runs of scripts instead of Telemetry; nil: Telemetry sees them
	// Person, when set, decides about calls with the policy action "ask", instead of
	// clients and the queue of approvals.
	Person approval.Person

	newSandbox func(sandbox.Options) *sandbox.Sandbox                   // for tests; nil: sandbox.New
	streams    func(servers.Spec) (io.ReadCloser, io.WriteCloser, bool) // for tests; see servers.Options
}

// Host is a running proxy. Its methods are safe for concurrent use.
type Host struct {
	opts       Options
	pageAccess *ui.Access // for the page of ServeHTTPOn; nil for none
	now        atomic.Pointer[settings]
	web        atomic.Pointer[streamable.Handler] // nil unless ServeHTTPOn runs

	sandbox   *sandbox.Sandbox
	room      savedRoom
	shared    *savedTools                            // of all clients without saved tools of their own
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
	inFleet   *sharedWork     // work on documents of the fleet in the background
	homes     *home.Finder    // the same
	records   *shared.Journal // the journal in the store of fleet; nil without a fleet
	drain     *drain

	flow    flowState
	parking stateless.Parking
	// searching and reading are the turns of work on lists and catalogs, and of reading the
	// journal.
	searching, reading *budget.Turns
	unwatched          func() // ends the use of state by telemetry
	// See the constants; tests on a busy machine give more.
	shutdownTime, restTime time.Duration

	built     chan struct{} // closed when New returns
	reloading reloading
}

// turnTime bounds one turn of searching and reading.
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

// settings is the current configuration with the parts made for it.
type settings struct {
	cfg   *config.Config
	*part // for clients with full rights
	// narrowed are the parts for other clients, by bearer.Rights.View, and before the parts of the
	// previous configuration, until no client has the old rights.
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

// settings makes the settings of a configuration, whose sources and Scopes the catalog must already
// have.
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
			dry.Structured = true // the result names the used mocks
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

// Reload switches to another configuration and returns the differences from the previous
// configuration. Added upstreams are started. Removed and changed upstreams finish their calls in
// flight and are then closed. Upstreams that are started or reached in the same way as before are
// not interrupted. Sessions are notified of changed lists.
//
// Settings that cannot change at run time keep their values. Reload does not wait for upstreams.
// The error is wire.ErrClosed if the Host is closed.
func (h *Host) Reload(cfg *config.Config) (Changes, error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	if err := brokenUpstreams(h.config(), cfg); err != nil {
		return Changes{}, err // the working upstreams stay
	}
	changes, cfg := compareConfigs(h.opts.Clients, h.config(), cfg)
	if h.ring != nil {
		if err := h.ring.Set(cfg.Store.Keys...); err != nil {
			return Changes{}, fmt.Errorf("keys in [store]: %w", err)
		}
		h.fleet.KeysChanged()
	}
	h.gate.SetPolicy(compile.Of(&cfg.Policy)) // first, so that the old policy decides about no call of a new upstream
	// The sources are set before their upstreams start, because the new upstreams may list at once,
	// and because names must no longer resolve to removed upstreams.
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
	h.setBuiltins() // before a client gets new rights
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

// admit gives the HTTP front end the access rules of the current configuration. The caller holds
// h.reloading.
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

// LimitHeap limits the heap of the whole process to the memory of the machine or container minus
// max_total_memory; see budget.Budget.LimitHeap.
func (h *Host) LimitHeap() { h.sandbox.Budget().LimitHeap() }

// shutdownTime bounds the shutdown of the upstreams, and restTime the shutdown of all other parts.
// Together with the end of a session (clients.ServeStdio), the shutdown takes less than five
// seconds after a signal.
const (
	shutdownTime = 2300 * time.Millisecond
	restTime     = 500 * time.Millisecond
)

// Close ends the upstreams with all of their processes, and all other parts. The sessions must have
// ended before. Close does not wait for an abandoned session, whose client does not read
// (clients.ErrStalled), nor for the guest while the guest is compiled or freed, which ends by
// itself. Close may be called again, also concurrently, and then waits for the rest.
func (h *Host) Close() error {
	defer h.recorder.Close()
	h.unwatched()
	h.drain.close()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), h.shutdownTime)
	defer cancel()
	suspended := h.durable.close(ctx) // first, so that the shutdown of other parts ends no durable run
	h.router.Close()
	closed := h.upstreams.Close(ctx)
	h.pins.Close()
	stored, boxed := inBackground(h.closeAll), inBackground(h.closeSandbox)
	ended, err := awaitUntil(time.Now().Add(h.restTime), boxed)
	if !ended && h.sandbox.Active() > 0 { // otherwise the guest is still compiled or freed
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
	h.records.Close() // ships also the last records of the recorder
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
