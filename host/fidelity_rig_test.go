package host

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
)

// init makes the test binary a raw server of mcptest if its environment says so, before
// TestMain looks for the servers of this package.
func init() { mcptest.Main() }

// combination is a pair of transports: of the client and of the upstream.
type combination struct{ client, upstream config.Transport }

func (c combination) String() string { return string(c.client) + "->" + string(c.upstream) }

// combinations are all combinations. Clients of the older HTTP+SSE transport are not
// supported.
var combinations = []combination{
	{config.Stdio, config.Stdio}, {config.Stdio, config.StreamableHTTP}, {config.Stdio, config.LegacySSE},
	{config.StreamableHTTP, config.Stdio}, {config.StreamableHTTP, config.StreamableHTTP}, {config.StreamableHTTP, config.LegacySSE},
}

// bounded returns a context for waiting for peers.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	t.Cleanup(cancel)
	return ctx
}

// rawUpstream is a server of mcptest that clients can reach.
type rawUpstream struct {
	received *mcptest.Log
	config   config.Upstream
}

// startRaw starts a server that is reached over a transport. Its tools keep their
// names.
func startRaw(t testing.TB, transport config.Transport, sw mcptest.ServerOptions) rawUpstream {
	t.Helper()
	up := config.Upstream{
		Name: "raw", Transport: transport, Timeout: maxWait, MaxTimeout: maxWait,
		Restart: config.RestartAlways, Isolation: config.Shared, Start: config.Eager,
	}
	if transport == config.Stdio {
		observer, err := mcptest.NewObserver()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(observer.Close)
		sw.Observer = observer.Addr()
		up.Command, up.Env = inProcess, sw.Environ()
		return rawUpstream{&observer.Log, up}
	}
	server := mcptest.NewServer(sw)
	handler := server.HTTP()
	if transport == config.LegacySSE {
		handler = server.SSE()
	}
	up.URL = listenHTTP(t, server, handler)
	return rawUpstream{server.Received, up}
}

func listenHTTP(t testing.TB, server *mcptest.Server, handler http.Handler) (url string) {
	l := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		l.Close()
	})
	return l.URL
}

// dialRaw connects a client to the server directly.
func dialRaw(t testing.TB, up rawUpstream, opts mcptest.ClientOptions) *mcptest.Client {
	t.Helper()
	switch up.config.Transport {
	case config.StreamableHTTP:
		return mcptest.NewHTTP(up.config.URL, opts)
	case config.LegacySSE:
		c, err := mcptest.NewSSE(up.config.URL, opts)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	out, in, ok := serversHere(t)(supervise.Spec(&config.Config{}, &up.config)) // ends with its input
	if !ok {
		t.Fatal("the server has a process")
	}
	return mcptest.NewStdio(out, in, opts)
}

// testProxy is a running Host in front of a raw server.
type testProxy struct {
	combination
	host     *Host
	received *mcptest.Log // by the server
	url      string       // of the HTTP front
}

func startProxy(t testing.TB, c combination, sw mcptest.ServerOptions) *testProxy {
	t.Helper()
	up := startRaw(t, c.upstream, sw)
	return serveProxy(t, c, up.received, testConfig(t, up.config))
}

// serveProxy runs a Host with a configuration.
func serveProxy(t testing.TB, c combination, received *mcptest.Log, cfg *config.Config) *testProxy {
	t.Helper()
	return serveProxyOf(t, c, received, cfg, Options{})
}

// serveProxyOf is serveProxy with options of the Host.
func serveProxyOf(t testing.TB, c combination, received *mcptest.Log, cfg *config.Config, opts Options) *testProxy {
	t.Helper()
	w := &testProxy{combination: c, received: received}
	opts.Clients = OneClient
	if c.client != config.Stdio {
		opts.Clients = ManyClients
	}
	w.host, _ = startHostOf(t, cfg, opts)
	if c.client == config.Stdio {
		return w
	}
	w.url = "http://" + serveHTTP(t, w.host) + config.DefaultPath
	return w
}

// serveHTTP serves the clients of h over HTTP until the test ends, and returns the address.
func serveHTTP(t testing.TB, h *Host) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- h.ServeHTTPOn(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("HTTP: %v", err)
		}
	})
	return ln.Addr().String()
}

// dial opens a session through the Host.
func (w *testProxy) dial(t testing.TB, opts mcptest.ClientOptions) *mcptest.Client {
	t.Helper()
	if w.client != config.Stdio {
		return mcptest.NewHTTP(w.url, opts)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := w.host.Serve(context.Background(), inR, outW)
		inR.Close()
		outW.Close()
		served <- err
	}()
	t.Cleanup(func() { <-served }) // the error may be that the client has disconnected
	return mcptest.NewStdio(outR, inW, opts)
}

// pair initializes a client and makes a pair with the server's log. The client is
// closed at the end of the test, unless it has been closed before.
func pair(t testing.TB, c *mcptest.Client, received *mcptest.Log) *mcptest.Pair {
	t.Helper()
	welcome, err := c.Initialize(bounded(t), mcptest.ClientParams)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), maxWait)
		defer cancel()
		_ = c.Close(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	return &mcptest.Pair{Client: c, InitializeResponse: welcome, Server: received}
}
