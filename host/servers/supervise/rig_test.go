package supervise

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// bounded is a context for waiting for peers.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// lists is a Catalog. It keeps the number of items of each list.
type lists struct {
	setting func(server string) // called before a list is set; nil: nothing
	mu      sync.Mutex
	items   map[string]map[wire.Surface]int // by server
	notices map[string]string               // the last notice, by server
	tools   map[bool]int                    // the number of tools of the last remembered, and of the last new list
}

func (l *lists) Odd(string) []string { return nil }

func (l *lists) SetList(server string, list catalog.List) {
	if l.setting != nil && !list.Remembered {
		l.setting(server)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.items[server] == nil {
		l.items[server] = map[wire.Surface]int{}
	}
	l.items[server][list.Surface] = len(list.Items)
	if list.Surface == wire.Tools {
		l.tools[list.Remembered] = len(list.Items)
	}
	if list.Notice != nil {
		l.notices[server] = string(list.Notice)
	}
}

func (l *lists) count(server string, surface wire.Surface) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items[server][surface]
}

func (l *lists) notice(server string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notices[server]
}

// receiver is a Receiver that ignores messages without a function. The functions must be set before
// the upstream sends messages for them.
type receiver struct {
	onNotification func(wire.Inbound)
	onRequest      func(context.Context, wire.Inbound) wire.Reply
}

func (r *receiver) OnNotification(n wire.Inbound) {
	if r.onNotification != nil {
		r.onNotification(n)
	}
}

func (r *receiver) OnRequest(ctx context.Context, m wire.Inbound) wire.Reply {
	if r.onRequest != nil {
		return r.onRequest(ctx, m)
	}
	return wire.Reply{}
}

func (*receiver) OnReady()  {}
func (*receiver) OnAsleep() {}

// session is a route.Session of which only the client is asked for.
type session struct{ unused }

type unused = route.Session

func (*session) Client() []byte              { return []byte(mcptest.ClientParams) }
func (*session) LogLevel() string            { return "" }
func (*session) Principal() string           { return "" }
func (*session) Revision() protocol.Revision { return protocol.Handshake.Newest() }

// rig has Upstreams with everything that they need.
type rig struct {
	*Upstreams
	lists    *lists
	log      *mcptest.Buffer
	slow     slowReads
	receiver receiver
	conf     *config.Config
}

// apply starts the upstreams of the configuration.
func (r *rig) apply(t testing.TB) {
	t.Helper()
	if !r.Apply(r.conf) {
		t.Fatal("closed from the start")
	}
}

// start starts the upstreams of a configuration, and closes them at the end of
// the test.
func start(t testing.TB, cfg *config.Config, clients Clients) *rig {
	t.Helper()
	r := newRig(t, cfg, clients)
	r.apply(t)
	return r
}

// newRig is start without starting anything.
func newRig(t testing.TB, cfg *config.Config, clients Clients) *rig {
	t.Helper()
	r := &rig{lists: &lists{items: map[string]map[wire.Surface]int{}, notices: map[string]string{}, tools: map[bool]int{}}, log: &mcptest.Buffer{}}
	r.Upstreams = New(cfg, Options{
		Clients: clients, Name: "test", Version: "0", Dir: cfg.Store.Dir, Catalog: r.lists,
		Receiver: func(string, route.Session) Receiver { return &r.receiver },
		Log:      slog.New(slog.NewTextHandler(r.log, nil)),
	})
	read := r.env.snapshots.read
	r.env.snapshots.read = func(ctx context.Context, path string, limit int64) ([]byte, error) {
		r.slow.wait(path)
		return read(ctx, path, limit)
	}
	r.conf = cfg
	t.Cleanup(func() {
		if err := r.Close(bounded(t)); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", r.log)
		}
	})
	return r
}

// configOf is a configuration of upstreams.
func configOf(t testing.TB, upstreams ...config.Upstream) *config.Config {
	return &config.Config{
		StartupWait: time.Minute, MaxMessage: limits.Message.Default, Store: config.Store{Dir: t.TempDir()}, Upstreams: upstreams,
	}
}

// server runs a server in the test, and returns the server's configuration.
func server(t testing.TB, name string, sw mcptest.ServerOptions) (config.Upstream, *mcptest.Server) {
	t.Helper()
	s := mcptest.NewServer(sw)
	l := httptest.NewServer(s.HTTP())
	t.Cleanup(func() {
		s.Close()
		l.Close()
	})
	return config.Upstream{
		Name: name, Transport: config.StreamableHTTP, URL: l.URL, Prefix: name + "__", Timeout: time.Minute,
		Restart: config.RestartAlways, Isolation: config.Shared, Start: config.Eager,
	}, s
}
