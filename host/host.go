// Package host puts the product together: it builds the parts of a running
// proxy from a configuration, in an order in which each part finds what it
// needs, and takes them down again in the reverse order.
//
//	host.go      Host: start, sessions, shutdown
//	backend.go   what sessions show: tool lists and calls
//	composites.go  saved tools as entries of the catalog, and their calls
//	instructions.go  what models are told of the product
//
// Packages below host: config (settings), wire (raw JSON-RPC), front (sessions
// with clients), upstream (connections to servers), catalog (the namespaced
// view), route (calls in flight), compose (composite calls), manage (built-in
// tools), journal (the record of a run), sandbox (wasm instances).
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/front"
	"github.com/mcp-metatool/mcp-metatool/host/manage"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Name is how the product calls itself towards clients and upstreams.
const Name = "mcp-metatool"

// Options of a Host.
type Options struct {
	// Version of the product.
	Version string
	// Log gets everything worth knowing. It must mask the configuration's
	// secrets itself (config.NewMaskingHandler).
	Log *slog.Logger
	// CacheDir keeps compiled guests between runs; "" for none.
	CacheDir string
}

// Host is a running proxy. Its methods are safe for concurrent use.
type Host struct {
	cfg     *config.Config
	opts    Options
	started time.Time

	sandbox   *sandbox.Sandbox
	store     *tools.Store
	catalog   *catalog.Catalog
	router    *route.Router
	upstreams []*upstream.Upstream

	refreshing sync.Mutex // makes one refresh of the composites at a time

	mu       sync.Mutex // guards sessions
	sessions map[*front.Session]bool
}

// New starts everything that a proxy has but sessions, and returns at once:
// upstreams connect and the guest is compiled in the background. The caller
// must Close the Host.
func New(cfg *config.Config, opts Options) (*Host, error) {
	h := &Host{cfg: cfg, opts: opts, started: time.Now(), sessions: map[*front.Session]bool{}}
	built := make(chan struct{})
	defer close(built)
	store, err := tools.OpenStore(cfg.Store.Dir, tools.StoreOptions{
		Log: opts.Log, OnChange: func() { <-built; h.refreshComposites() },
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	h.store = store
	h.sandbox = sandbox.New(sandbox.Options{
		CacheDir: opts.CacheDir, Log: opts.Log,
		MaxConcurrent: cfg.Execution.MaxConcurrent, MaxQueued: cfg.Execution.MaxQueued,
	})
	h.catalog = catalog.New(h.sources(), opts.Log, h.toolsChanged)
	h.router = &route.Router{
		Catalog: h.catalog, Upstreams: map[string]route.Upstream{}, Settled: h.settled, Log: opts.Log,
	}
	composer := compose.New(compose.Options{
		Sandbox: h.sandbox, Catalog: h.catalog, Upstreams: h.router, Log: opts.Log,
		Timeout: cfg.Execution.Timeout, Limits: limits(cfg.Execution), Debug: cfg.Debug, Executed: h.store.RecordExecution,
	})
	manager := manage.New(manage.Options{
		Store: h.store, Catalog: h.catalog, Composer: composer, Log: opts.Log, OnChange: h.refreshComposites,
	})
	h.router.Handlers = map[catalog.Kind]route.Handler{
		catalog.Builtin: manager, catalog.Composite: &composites{h.store, composer},
	}
	h.catalog.SetBuiltins(manager.Entries())
	h.refreshComposites()
	h.startUpstreams()
	return h, nil
}

func limits(e config.Execution) sandbox.Limits {
	return sandbox.Limits{
		Memory: e.MaxMemory, Fuel: e.MaxFuel, Calls: e.MaxCalls, Arguments: int(e.MaxArguments),
		Answer: int(e.MaxAnswer), Result: int(e.MaxResult), Logs: int(e.MaxLogs),
	}
}

func (h *Host) sources() []catalog.Source {
	var sources []catalog.Source
	for _, u := range h.enabled() {
		sources = append(sources, catalog.Source{Server: u.Name, Prefix: u.Prefix, Exposes: u.Exposes, Hides: u.Hides})
	}
	return sources
}

func (h *Host) enabled() []config.Upstream {
	return slices.DeleteFunc(slices.Clone(h.cfg.Upstreams), func(u config.Upstream) bool { return u.Disabled })
}

func (h *Host) startUpstreams() {
	for _, u := range h.enabled() {
		env := make([]string, 0, len(u.Env))
		for k, v := range u.Env {
			env = append(env, k+"="+v)
		}
		slices.Sort(env)
		up := upstream.Start(upstream.Spec{
			Name: u.Name, Command: u.Command, Args: u.Args, Env: env, Dir: u.Dir,
			Timeout: u.Timeout, MaxMessage: int(h.cfg.MaxMessage),
		}, upstream.Options{
			Log: h.opts.Log, ClientName: Name, ClientVersion: h.opts.Version,
			OnTools: func(tools [][]byte) { h.catalog.SetUpstream(u.Name, tools) },
		})
		h.upstreams = append(h.upstreams, up)
		h.router.Upstreams[u.Name] = up
	}
}

// toolsChanged tells every session.
func (h *Host) toolsChanged() {
	h.mu.Lock()
	sessions := make([]*front.Session, 0, len(h.sessions))
	for s := range h.sessions {
		sessions = append(sessions, s)
	}
	h.mu.Unlock()
	for _, s := range sessions {
		s.ToolsChanged()
	}
}

// Serve runs one session with a client until in ends, the client stops
// reading, or ctx ends; nil means that the client hung up. See
// front.Session.Serve about in.
func (h *Host) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	session := front.NewSession(ctx, out, front.Options{
		Backend: h, Name: Name, Version: h.opts.Version, Instructions: instructions,
		MaxMessage: int(h.cfg.MaxMessage), Log: h.opts.Log,
	})
	h.mu.Lock()
	h.sessions[session] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.sessions, session)
		h.mu.Unlock()
	}()
	return session.Serve(in)
}

// Client is a session with a Host in the same process, for commands that call
// tools themselves.
type Client struct {
	*upstream.Conn
	served chan error
}

// Connect opens a session with h over in-process pipes and initializes it.
// Closing the Client ends the session and waits for it.
func (h *Host) Connect(ctx context.Context, onNotification func(method string, params []byte)) (*Client, error) {
	fromClient, toHost := io.Pipe()
	fromHost, toClient := io.Pipe()
	c := &Client{served: make(chan error, 1)}
	go func() {
		err := h.Serve(ctx, fromClient, toClient)
		fromClient.Close()
		toClient.Close()
		c.served <- err
	}()
	c.Conn = upstream.NewConn(fromHost, toHost, upstream.ConnOptions{
		Name: Name, Log: h.opts.Log, OnNotification: onNotification, MaxMessage: int(h.cfg.MaxMessage),
	})
	if _, err := c.Initialize(ctx, upstream.ClientParams{Name: Name, Version: h.opts.Version}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends the session. What the host was about to send is lost.
func (c *Client) Close() error {
	err := c.Conn.Close()
	if served := <-c.served; !errors.Is(served, wire.ErrClosed) {
		err = errors.Join(err, served)
	}
	return err
}

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
// compilation of the guest, which cannot be interrupted; it ends by itself.
func (h *Host) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	errs := make([]error, len(h.upstreams))
	var closing sync.WaitGroup
	for i, up := range h.upstreams {
		closing.Go(func() { errs[i] = up.Close(ctx) })
	}
	closing.Wait()
	rest := make(chan error, 1)
	go func() { rest <- errors.Join(h.store.Close(), h.sandbox.Close()) }()
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
