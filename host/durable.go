package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/guard/permissions"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// durableRuns are the durable runs of the store, and the goroutines that end with the Host.
type durableRuns struct {
	*durable.Runs
	looking sync.WaitGroup
	stop    context.CancelFunc // ends looking

	mu    sync.Mutex     // a leaf
	owner *durable.Owner // nil in a fleet, and until the first run
	going int            // runs of other processes that this process continues
	// left are the runs that this process does not continue, after logging so: true if the process
	// cannot with its present settings; false if the store was not available, so that the process
	// tries again.
	left map[string]bool
}

// durableDir is the folder of the logs of durable runs.
func durableDir(cfg *config.Config) string { return filepath.Join(cfg.Store.Dir, "durable") }

// OpenedRuns are the durable runs of a configuration, as commands see them.
type OpenedRuns struct {
	*durable.Runs
	store io.Closer // nil for files
}

// Close releases the store.
func (r *OpenedRuns) Close(ctx context.Context) error {
	err := r.Runs.Close(ctx)
	if r.store != nil {
		err = errors.Join(err, r.store.Close())
	}
	return err
}

// fleetTime bounds how long commands wait for the store of a fleet.
const fleetTime = 15 * time.Second

// OpenRuns returns the durable runs of a configuration for a command without a Host. The caller
// must Close them.
func OpenRuns(ctx context.Context, cfg *config.Config, log *slog.Logger) (*OpenedRuns, error) {
	opts := durable.Options{Log: log, Owner: func() (string, error) { return "", errors.New("this command makes no runs") }}
	if len(cfg.Store.NATS) > 0 {
		ctx, cancel := context.WithTimeout(ctx, fleetTime)
		defer cancel()
		shared, err := OpenFleet(ctx, cfg, log)
		if err != nil {
			return nil, fmt.Errorf("the store of the fleet: %w", err)
		}
		opts.Store = durable.Shared(shared)
		return &OpenedRuns{durable.New(opts), shared}, nil
	}
	folder := durable.NewFolder(durableDir(cfg))
	opts.Store, opts.Alive = folder, folder.Alive
	if err := sealLogs(ctx, cfg, &opts); err != nil {
		return nil, err
	}
	return &OpenedRuns{durable.New(opts), nil}, nil
}

// sealLogs adds the cipher of logs in files to the options.
func sealLogs(ctx context.Context, cfg *config.Config, opts *durable.Options) error {
	key, err := requeststate.LoadKey(ctx, cfg.Store.Dir)
	if err != nil {
		return err
	}
	opts.AEAD, err = durable.NewAEAD(key)
	return err
}

// openDurable opens the durable runs. Without a journal, durable runs are off, since their results
// would be lost.
func (h *Host) openDurable(cfg *config.Config) {
	h.durable = &durableRuns{left: map[string]bool{}}
	if h.recorder.Journal() == nil {
		return
	}
	opts := durable.Options{TTL: h.opts.DurableTTL, Log: h.opts.Log, Room: int64(cfg.Journal.MaxTotal)}
	if h.fleet != nil {
		opts.Store, opts.Owner = durable.Shared(h.fleet.Store()), func() (string, error) { return h.fleet.ID(), nil }
	} else {
		folder := durable.NewFolder(durableDir(cfg))
		opts.Store, opts.Alive, opts.Owner = folder, folder.Alive, h.durable.ownerIn(folder)
		if err := sealLogs(context.Background(), cfg, &opts); err != nil {
			h.opts.Log.Warn("durable tools are refused: there is no key for the logs of their runs", "err", err)
			return
		}
	}
	if h.opts.DurableRuns != nil {
		opts.Store = h.opts.DurableRuns(opts.Store)
	}
	h.durable.Runs = durable.New(opts)
}

// ownerIn returns a function that makes this process an owner in a folder, once.
func (d *durableRuns) ownerIn(folder *durable.Folder) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		owner, err := folder.NewOwner()
		if err != nil {
			return "", err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.owner = owner
		return owner.Name, nil
	})
}

// continueRuns continues runs whose process has died, until the Host is closed.
func (h *Host) continueRuns() {
	if h.durable.Runs == nil || h.opts.Clients == NoClient {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	h.durable.stop = stop
	h.durable.looking.Go(func() {
		ticker := time.NewTicker(cmp.Or(h.opts.DurableTTL, durable.DefaultTTL) / 5)
		defer ticker.Stop()
		for {
			h.takeRuns(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
}

// takeRuns takes all runs without a living process.
func (h *Host) takeRuns(ctx context.Context) {
	for id, err := range h.durable.Free(ctx) {
		if h.durable.isBusy() {
			return // the next time
		}
		if err == nil && h.durable.leaves(ctx, id) {
			continue
		}
		if err == nil {
			_, err = h.continueRun(ctx, id, true)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, durable.ErrHeld) && !errors.Is(err, durable.ErrNotFound) {
			h.leaveRun(id, err)
		}
	}
}

// maxLeft bounds durableRuns.left: beyond it, warnings can repeat.
const maxLeft = 10_000

// leaveRun logs, once, why this process does not continue a run.
func (h *Host) leaveRun(id string, why error) {
	forGood := !errors.Is(why, store.ErrUnavailable) && !errors.Is(why, store.ErrUnknown)
	h.durable.mu.Lock()
	before, said := h.durable.left[id]
	if len(h.durable.left) >= maxLeft { // later warnings about the cleared runs repeat
		clear(h.durable.left)
	}
	h.durable.left[id] = forGood
	h.durable.mu.Unlock()
	switch {
	case said && before == forGood:
	case forGood:
		h.opts.Log.Warn("a durable run does not go on in this process", "run", id, "err", why)
	default:
		h.opts.Log.Warn("a durable run cannot be taken now, which this process tries again", "run", id, "err", why)
	}
}

// leaves reports whether this process was unable to continue a run, which no client has cancelled
// since.
func (d *durableRuns) leaves(ctx context.Context, id string) bool {
	d.mu.Lock()
	left := d.left[id]
	d.mu.Unlock()
	if !left {
		return false
	}
	cancelled, err := d.IsCancelled(ctx, id)
	return err == nil && !cancelled
}

// forgetLeft makes all runs be looked at again: the settings have changed.
func (d *durableRuns) forgetLeft() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.left)
}

// ContinueRun takes a durable run without a living process, and waits for the result until ctx
// ends. Afterwards, other processes can continue the run.
func (h *Host) ContinueRun(ctx context.Context, id string) (wire.Reply, error) {
	if h.durable.Runs == nil {
		return wire.Reply{}, errors.New("there is no journal, so there are no durable runs")
	}
	done, err := h.continueRun(ctx, id, false)
	for err != nil && h.awaitLease(ctx, err) {
		done, err = h.continueRun(ctx, id, false)
	}
	if err != nil {
		return wire.Reply{}, err
	}
	select {
	case reply := <-done:
		return reply, nil
	case <-ctx.Done():
		return wire.Reply{}, context.Cause(ctx)
	}
}

// awaitLease waits for the end of a lease whose renewal this process has not observed yet. It
// returns false if the lease is renewed, or if err has another cause.
func (h *Host) awaitLease(ctx context.Context, err error) bool {
	var held *lease.HeldError
	if h.fleet == nil || !errors.As(err, &held) {
		return false
	}
	renewed := cmp.Or(h.opts.DurableTTL, durable.DefaultTTL) / 4
	if held.For > renewed && !sleep(ctx, 2*renewed) {
		return false
	}
	open, err := h.durable.Look(ctx, held.Name)
	return err == nil && open.Left < held.For && sleep(ctx, open.Left)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// maxDeaths is the number of dead processes after which a run waits for a person: the run may be
// the cause of the deaths.
const maxDeaths = 5

// maxGoing bounds the runs of other processes that this process continues at the same time.
const maxGoing = 32

func (d *durableRuns) isBusy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.going >= maxGoing
}

func (d *durableRuns) count(more int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.going += more
}

// taken returns the number of runs of other processes that this process continues.
func (d *durableRuns) taken() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(d.going)
}

// takeNoMore makes this process take no further runs of other processes.
func (d *durableRuns) takeNoMore() {
	if d.stop != nil {
		d.stop()
	}
}

// continueRun takes a run and continues it. byItself is false if a person has asked for the run.
func (h *Host) continueRun(ctx context.Context, id string, byItself bool) (<-chan wire.Reply, error) {
	open, err := h.durable.Look(ctx, id)
	if err != nil {
		return nil, err
	}
	if open.Err != nil {
		return nil, open.Err
	}
	if byItself && open.Deaths >= maxDeaths && !open.Cancelled {
		return nil, fmt.Errorf("%d processes have died while they were at it (mcp-metatool runs resume %s goes on with it, mcp-metatool runs cancel %[2]s ends it)", open.Deaths, id)
	}
	s, err := h.absent(open.State)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(compose.CanContinue(open.State), h.lacks(open.State)); err != nil && !open.Cancelled {
		return nil, err
	}
	log, state, err := h.durable.Take(ctx, id)
	if err != nil {
		return nil, err
	}
	part := h.now.Load().of(s)
	if compose.CanContinue(state) != nil { // the run was cancelled
		reply, err := part.composer.CancelOpen(ctx, log, state)
		if err != nil {
			return nil, err
		}
		done := make(chan wire.Reply, 1)
		done <- reply
		return done, nil
	}
	h.opts.Log.Info("going on with a durable run", "run", id, "tool", state.Record.Definition.Name, "record", state.LastRecord)
	done := make(chan wire.Reply, 1)
	began := h.durable.Go(context.Background(), func(ctx context.Context, cancel context.CancelCauseFunc) {
		h.durable.count(1)
		defer h.durable.count(-1)
		defer context.AfterFunc(h.drain.left, log.Suspend)()
		h.upstreams.BeginSession(s)
		h.router.Begin(s)
		defer h.upstreams.EndSession(s)
		defer h.router.EndSession(s)
		done <- part.composer.Continue(ctx, cancel, log, state, s)
	})
	if !began {
		return nil, errors.Join(durable.ErrSuspended, log.Leave(ctx))
	}
	return done, nil
}

// lacks returns an error if the configuration lacks a server that a run has called or may call: the
// run began with another configuration.
func (h *Host) lacks(state *durable.State) error {
	cfg := h.config()
	has := func(server string) bool {
		return server == tools.SavedServer || slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == server })
	}
	var missing string
	state.Record.Any(func(r *journal.Record) bool {
		for _, c := range r.Calls {
			if c.Answer.Err == nil && !has(c.Server) {
				missing = c.Server
			}
		}
		if p := r.Definition.Permissions; p != nil {
			for _, target := range p.Calls {
				if server, _, _ := strings.Cut(target, "."); !has(server) {
					missing = server
				}
			}
		}
		return missing != ""
	})
	if missing == "" {
		return nil
	}
	return fmt.Errorf("it needs the server %q, which this configuration does not have (or cancel it: mcp-metatool runs cancel %s)", missing, state.Record.ID)
}

// close leaves the durable runs to other processes.
func (d *durableRuns) close(ctx context.Context) error {
	if d.Runs == nil {
		return nil
	}
	if d.stop != nil {
		d.stop()
	}
	d.looking.Wait()
	err := d.Runs.Close(ctx)
	d.mu.Lock()
	owner := d.owner
	d.owner = nil
	d.mu.Unlock()
	if owner != nil {
		err = errors.Join(err, owner.Close())
	}
	return err
}

// isIdempotent reports whether a call of a tool, by real names, can be made again.
func (h *Host) isIdempotent(settings config.Durable) func(server, tool string) bool {
	return func(server, tool string) bool {
		matches := func(patterns []string) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return tools.Matches(p, server, tool) })
		}
		switch {
		case matches(settings.NotIdempotent):
			return false
		case matches(settings.Idempotent):
			return true
		}
		return permissions.HintsOf(h.catalog.Definition(server, tool)).Idempotent
	}
}

// absent returns the session of a client that has gone, whose durable run continues. The error is
// the reason why the run cannot continue in this process.
func (h *Host) absent(state *durable.State) (*absentClient, error) {
	s := &absentClient{id: "durable-" + state.Record.ID, about: state.About}
	s.client, _ = wire.Set([]byte(`{"capabilities":{},"clientInfo":{}}`), wire.Quote(state.Record.Client.Name), "clientInfo", "name")
	if state.Principal == "" {
		return s, nil
	}
	if h.opts.Clients != ManyClients {
		return nil, errors.New("it was begun by a client with a token, which only serve --http knows")
	}
	s.rights = func() *bearer.Rights {
		for _, t := range h.config().HTTP.Tokens {
			if t.Digest.Principal() == state.Principal && !t.Expired(time.Now()) {
				return t.Rights.Prepared()
			}
		}
		return bearer.Nothing
	}
	if s.rights() == bearer.Nothing || h.now.Load().of(s) == nil {
		return nil, errors.New("the token of its client is no longer valid")
	}
	return s, nil
}

// absentClient is the session of a client that has gone. The session refuses questions to the
// client, and drops notifications.
type absentClient struct {
	id     string
	about  durable.About
	client []byte
	rights func() *bearer.Rights // nil: not narrowed
}

var _ route.Session = (*absentClient)(nil)

func (s *absentClient) Session() route.Session      { return s }
func (s *absentClient) Revision() protocol.Revision { return protocol.Handshake.Newest() }
func (s *absentClient) Client() []byte              { return s.client }
func (s *absentClient) LogLevel() string            { return "" }
func (s *absentClient) Notify(string, []byte)       {}
func (s *absentClient) Ask(context.Context, wire.Call) (wire.Reply, error) {
	return wire.Reply{}, route.ErrNotListening
}
func (s *absentClient) ID() string                   { return s.id }
func (s *absentClient) Principal() string            { return s.about.Principal }
func (s *absentClient) TokenName() string            { return s.about.Token }
func (s *absentClient) Changed(wire.Surface, []byte) {}

func (s *absentClient) Rights() *bearer.Rights {
	if s.rights == nil {
		return nil
	}
	return s.rights()
}
