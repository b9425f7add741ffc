package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stdio"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry"
)

// session returns the options of sessions, over HTTP or over a pair of streams.
func (h *Host) session(http bool) clients.Options {
	follower := h.opts.Telemetry.Front(http, h.isTool)
	opts := clients.Options{
		Backend: backend{h.router, h.upstreams, follower, h.config}, Name: Name, Version: h.opts.Version,
		MaxMessage: int(h.config().MaxMessage), Budget: h.sandbox.Budget(), Log: h.opts.Log,
		Stateless: clients.Stateless{
			Sealer: h.sealer, Parking: &h.parking,
			InputTimeout: func() time.Duration { return h.config().InputTimeout },
		},
	}
	if follower != nil {
		opts.Tracer = follower
	}
	if h.homes != nil {
		opts.Stateless.Lost = h.homes.Lost
	}
	if h.fleet != nil {
		opts.Tracer = counted{opts.Tracer, h.drain}
	}
	return opts
}

// backend is the router together with the upstreams of its sessions. It implements clients.Backend
// and clients.Submitter.
type backend struct {
	*route.Router
	upstreams *supervise.Upstreams
	follower  *telemetry.Front // nil for none
	config    func() *config.Config
}

var _ clients.Submitter = backend{}

// BeginSession implements clients.Backend.
func (b backend) BeginSession(ctx context.Context, s route.Session) (route.InitializeResult, error) {
	b.upstreams.BeginSession(s)
	w, err := b.Router.BeginSession(ctx, s)
	if err != nil { // the session has not begun
		b.upstreams.EndSession(s)
		return w, err
	}
	b.follower.BeginSession(s)
	w.Meta = supervise.AddNestedMeta(w.Meta, b.config())
	return w, nil
}

// Discover implements stateless.Backend.
func (b backend) Discover(s route.Session) route.InitializeResult {
	w := b.Router.Discover(s)
	w.Meta = supervise.AddNestedMeta(w.Meta, b.config())
	return w
}

// Begin implements stateless.Backend.
func (b backend) Begin(s route.Session) {
	b.upstreams.BeginSession(s)
	b.Router.Begin(s)
}

// EndSession implements clients.Backend.
func (b backend) EndSession(s route.Session) {
	b.follower.EndSession(s)
	b.Router.EndSession(s)
	b.upstreams.EndSession(s)
}

// Serve runs one session with a client until in ends, the client stops reading, or ctx ends. The
// error is nil if in ended. See clients.ServeStdio about in.
func (h *Host) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return clients.ServeStdio(ctx, in, out, h.session(false))
}

// ServeHTTPOn serves streamable HTTP on ln until ctx ends, and closes ln. The error is
// the cause of ctx, or the reason why serving failed.
func (h *Host) ServeHTTPOn(ctx context.Context, ln net.Listener) error {
	settings := h.config().HTTP
	shared := h.sharedSessions(settings.SessionTTL)
	web := streamable.Options{
		Session: h.session(true), Access: access(settings),
		SessionTTL: settings.SessionTTL, MaxSessions: settings.MaxSessions,
		MaxSessionsPerToken: settings.MaxSessionsPerToken, MaxSessionsPerAddress: settings.MaxSessionsPerAddress,
		UnusedTTL: settings.UnusedTTL, InitializeRate: settings.InitializeRate,
		ResumeWindow: cmp.Or(settings.ResumeWindow, -1), // in streamable.Options, 0 means the default
		Fleet:        shared,
		Refuses:      h.drain.refuses,
	}
	if h.homes != nil {
		web.Replicas = h.homes
	}
	sessions := streamable.New(ctx, web)
	h.reloading.Lock()
	h.web.Store(sessions)
	h.admit() // the configuration may have been reloaded before web was set
	h.reloading.Unlock()
	defer h.web.Store(nil)
	path := cmp.Or(settings.Path, config.DefaultPath)
	stopPeers, err := h.servePeers(ctx, sessions)
	if err != nil {
		ln.Close()
		defer shared.Close(ctx)
		return errors.Join(err, sessions.Close(ctx))
	}
	defer stopPeers()
	page := http.NotFoundHandler()
	if h.pageAccess != nil {
		ctx, stop := context.WithCancel(ctx)
		handler := h.Page(ctx, h.pageAccess)
		defer handler.Close()
		defer stop()
		page = handler
	}
	pages := h.probes(page)
	server := streamable.NewServer(h.drain.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			sessions.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})), streamable.ServerOptions{
		MaxConnections: settings.MaxConnections, MaxConnectionsPerAddress: settings.MaxConnectionsPerAddress,
		Servers: len(h.config().Upstreams), Log: h.opts.Log,
	})
	return serveUntil(ctx, server, ln, func(late context.Context) {
		err := sessions.Close(late)
		shared.Close(late)
		if err = errors.Join(err, server.Shutdown(late)); err != nil {
			h.opts.Log.Warn("end of the HTTP sessions", "err", err)
		}
	})
}

// serveUntil serves HTTP on ln until ctx ends, and closes ln. Then serveUntil calls end, whose
// context ends after sessionsTime, and closes the remaining connections. The error is the cause of
// ctx, or the reason why serving failed.
func serveUntil(ctx context.Context, server *streamable.Server, ln net.Listener, end func(late context.Context)) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	var err error
	ended := false
	select {
	case err = <-served:
		ended = true
		err = fmt.Errorf("serving HTTP on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	late, cancel := context.WithTimeout(context.Background(), sessionsTime)
	defer cancel()
	end(late)
	server.Close() // closes the connections that are still open
	if !ended {
		<-served
	}
	return err
}

// sessionsTime bounds the end of the HTTP sessions.
const sessionsTime = 1500 * time.Millisecond

// Client is a session with a Host in the same process, for commands that call tools.
type Client struct {
	*stdio.Conn
	served chan error
}

// Connect opens a session with h over in-process pipes and initializes the session. Closing the
// Client ends the session and waits for its end.
func (h *Host) Connect(ctx context.Context, onNotification func(m wire.Inbound)) (*Client, error) {
	fromClient, toHost := io.Pipe()
	fromHost, toClient := io.Pipe()
	c := &Client{served: make(chan error, 1)}
	go func() {
		err := h.Serve(ctx, fromClient, toClient)
		fromClient.Close()
		toClient.Close()
		c.served <- err
	}()
	c.Conn = stdio.NewConn(fromHost, toHost, link.Options{
		MaxMessage: int(h.config().MaxMessage),
		Handler:    link.Callbacks{OnNotification: onNotification},
		Errors:     servers.CallErrors(Name),
		Log:        h.opts.Log.With("upstream", Name),
	})
	params := servers.ClientParams{Name: Name, Version: h.opts.Version}.Params()
	if _, err := servers.Initialize(ctx, c.Conn, params); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends the session. Messages that the Host has not sent yet are lost.
func (c *Client) Close() error {
	err := c.Conn.Close()
	if served := <-c.served; !errors.Is(served, wire.ErrClosed) {
		err = errors.Join(err, served)
	}
	return err
}
