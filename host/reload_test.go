package host

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// reload applies a change of its configuration to h.
func reload(t testing.TB, h *Host, change func(cfg *config.Config)) Changes {
	t.Helper()
	next := *h.config()
	next.Upstreams = slices.Clone(next.Upstreams)
	change(&next)
	changes, err := h.Reload(&next)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// another changes an upstream so that it has to be restarted.
func another(u *config.Upstream) {
	u.Env = map[string]string{upstreamEnv: u.Env[upstreamEnv], "ANOTHER": fmt.Sprint(len(u.Env["ANOTHER"])) + u.Env["ANOTHER"]}
}

// pid returns the process id of an upstream.
func (c *client) pid(prefix string) string {
	c.t.Helper()
	return pidIn(c.t, c.call(prefix+"pid", `{}`))
}

func pidIn(t testing.TB, result string) string {
	t.Helper()
	pid, ok := wire.Get([]byte(result), "structuredContent", "pid")
	if !ok {
		t.Fatalf("no pid in %s", result)
	}
	return string(pid)
}

// gate is a call that stays in flight until the gate is opened.
type gate struct {
	net.Listener
	conn *net.TCPConn
}

func newGate(t testing.TB) *gate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &gate{Listener: ln}
}

// call starts the call, and returns when the upstream has it.
func (g *gate) call(c *client, id, prefix string) {
	c.t.Helper()
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"address":%q}}}`,
		id, prefix+"gate", g.Addr()))
	g.accept(c.t)
}

// accept waits until an upstream has received the call.
func (g *gate) accept(t testing.TB) {
	t.Helper()
	conn, err := g.Accept()
	if err != nil {
		t.Fatal(err)
	}
	g.conn = conn.(*net.TCPConn)
	t.Cleanup(func() { conn.Close() })
}

// open lets the upstream answer.
func (g *gate) open(t testing.TB) {
	t.Helper()
	if err := g.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// gone waits for the end of the upstream's process.
func (g *gate) gone(t testing.TB) {
	t.Helper()
	if err := g.conn.SetReadDeadline(time.Now().Add(maxWait)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, g.conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the old process is still there")
	}
}

// changed waits until the client is notified of a changed list, and then until the list
// has, or does not have, a tool.
func (c *client) changed(tool string, has bool) {
	c.t.Helper()
	for {
		raw, err := c.out.Read()
		if err != nil {
			c.t.Fatal(err)
		}
		if strings.Contains(string(raw), `"notifications/tools/list_changed"`) {
			break
		}
	}
	list := ""
	for range 1000 { // one of several changes may come first
		list = c.request(`"list"`, "tools/list", `{}`)
		if strings.Contains(list, fmt.Sprintf(`"name":%q`, tool)) == has {
			return
		}
	}
	c.t.Fatalf("%s: %s", tool, list)
}

func TestReloadReplacesAnUpstream(t *testing.T) {
	t.Parallel()
	for _, clients := range []Clients{OneClient, ManyClients} {
		for _, isolation := range []config.Isolation{config.Shared, config.PerSession} {
			t.Run(fmt.Sprintf("%d %s", clients, isolation), func(t *testing.T) {
				u := upstreamOf("raw", "raw")
				u.Isolation = isolation
				h, _ := startHostFor(t, testConfig(t, u, upstreamOf("other", "raw")), clients)
				c, g := dial(t, h), newGate(t)
				old, other := c.pid("raw__"), c.pid("other__")
				g.call(c, `"old"`, "raw__")
				changes := reload(t, h, func(cfg *config.Config) { another(&cfg.Upstreams[0]) })
				if got := changes.Lines(); !slices.Equal(got, []string{`upstream "raw": replaced (env)`}) {
					t.Errorf("changes: %q", got)
				}
				now := c.pid("raw__")
				if now == old {
					t.Errorf("the old process takes new calls")
				}
				if c.pid("other__") != other {
					t.Error("an upstream that stays was started again")
				}
				g.open(t)
				if got := c.hear(); !strings.Contains(got, `"id":"old"`) || !strings.Contains(got, `"pid":`+old+"}") {
					t.Errorf("the call in flight: %s", got)
				}
				g.gone(t)
				if c.pid("raw__") != now {
					t.Error("the new process did not stay")
				}
			})
		}
	}
}

// TestReloadAndCancel checks that a cancelled call does not keep the old process
// running.
func TestReloadAndCancel(t *testing.T) {
	t.Parallel()
	h, _ := startHostFor(t, testConfig(t, upstreamOf("raw", "raw")), ManyClients)
	c, g := dial(t, h), newGate(t)
	c.pid("raw__")
	g.call(c, "1", "raw__")
	reload(t, h, func(cfg *config.Config) { another(&cfg.Upstreams[0]) })
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	g.gone(t)
	c.pid("raw__")
}

func TestReloadAddsAndRemoves(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("stays", "raw"), upstreamOf("goes", "raw")))
	c, g := dial(t, h), newGate(t)
	pid := c.pid("stays__")
	g.call(c, "7", "goes__")
	changes := reload(t, h, func(cfg *config.Config) {
		cfg.Upstreams = []config.Upstream{upstreamOf("comes", "raw"), cfg.Upstreams[0]}
	})
	if got := changes.Lines(); !slices.Equal(got, []string{`upstream "comes": added`, `upstream "goes": removed`}) {
		t.Errorf("changes: %q", got)
	}
	c.changed("comes__pid", true)
	if got := c.request("1", "tools/call", `{"name":"goes__text","arguments":{"text":"x"}}`); !strings.Contains(got, "unknown tool: goes__text") {
		t.Errorf("a tool of an upstream that was removed: %s", got)
	}
	if got := c.call("eval_starlark", `{"code":"goes.text(text='x')"}`); !strings.Contains(got, "undefined: goes") {
		t.Errorf("a script knows the upstream that was removed: %s", got)
	}
	if got := c.call("eval_starlark", `{"code":"return comes.text(text='hello')"}`); !strings.Contains(got, `"result":"hello"`) {
		t.Errorf("a script does not know the upstream that was added: %s", got)
	}
	if c.pid("stays__") != pid {
		t.Error("an upstream that stays was started again")
	}
	g.open(t)
	if got := c.hear(); !strings.Contains(got, `"id":7,"result"`) {
		t.Errorf("the call in flight: %s", got)
	}
	g.gone(t)

	reload(t, h, func(cfg *config.Config) { cfg.Upstreams[1].Disabled = true })
	c.changed("stays__pid", false)
	var names []string
	for _, st := range h.Upstreams(t.Context()) {
		names = append(names, st.Name)
	}
	if !slices.Equal(names, []string{"comes"}) {
		t.Errorf("upstreams: %q", names)
	}
}

func TestReloadOfVisibility(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("raw", "raw")))
	c := dial(t, h)
	pid := c.pid("raw__")
	changes := reload(t, h, func(cfg *config.Config) {
		cfg.Upstreams[0].Prefix, cfg.Upstreams[0].Hide = "new_", []string{"exit"}
	})
	if got := changes.Lines(); !slices.Equal(got, []string{`upstream "raw": adjusted (prefix, hide)`}) {
		t.Errorf("changes: %q", got)
	}
	c.changed("new_pid", true)
	if c.pid("new_") != pid {
		t.Error("another prefix started it again")
	}
	for _, gone := range []string{"raw__pid", "new_exit"} {
		if got := c.request("1", "tools/call", fmt.Sprintf(`{"name":%q}`, gone)); !strings.Contains(got, "unknown tool") {
			t.Errorf("%s: %s", gone, got)
		}
	}
	reload(t, h, func(cfg *config.Config) { cfg.Upstreams[0].Hide, cfg.Upstreams[0].Expose = nil, []string{"text"} })
	c.changed("new_pid", false)
	if got := c.call("eval_starlark", `{"code":"return raw.pid().pid"}`); !strings.Contains(got, `"result":`+pid) {
		t.Errorf("scripts may still call it: %s", got)
	}
}

func TestReloadOfSettings(t *testing.T) {
	t.Parallel()
	h, _ := startHostFor(t, testConfig(t), ManyClients)
	c := dial(t, h)
	changes := reload(t, h, func(cfg *config.Config) {
		cfg.StartupWait, cfg.Debug, cfg.Execution.MaxFuel = time.Second, true, 20_000_000
		cfg.Execution.MaxQueued, cfg.Store.Dir, cfg.HTTP.Tokens, cfg.HTTP.CertFile = 1, t.TempDir(), bearerTokens("t"), "/cert"
		cfg.HTTP.MaxSessions = 1
	})
	want := []string{
		"execution.debug: changed", "startup_wait: changed", "execution.max_fuel: changed", "http.tokens: changed",
		"execution.max_queued: needs a restart", "store.dir: needs a restart", "http.tls_cert: needs a restart", "http.max_sessions: needs a restart",
	}
	if got := changes.Lines(); !slices.Equal(got, want) {
		t.Errorf("changes:\n%q\nwant\n%q", got, want)
	}
	got := c.call("eval_starlark", `{"code":"while True: pass"}`)
	if value, _ := wire.Get([]byte(got), "structuredContent", "error", "details", "value"); string(value) != "20000000" {
		t.Errorf("the limit is not in force: %s", got)
	}
	changes = reload(t, h, func(cfg *config.Config) { cfg.HTTP.Tokens = nil })
	if got := changes.Lines(); !slices.Equal(got, []string{"http.tokens: needs a restart"}) {
		t.Errorf("without any token: %q", got)
	}
	changes = reload(t, h, func(*config.Config) {})
	if got := changes.Lines(); got != nil {
		t.Errorf("nothing has changed, but: %q", got)
	}
}

// TestReloadOfTokens checks that clients whose token was removed are refused.
func TestReloadOfTokens(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.HTTP.Tokens = bearerTokens("old")
	h, _ := startHostFor(t, cfg, ManyClients)
	address := serveHTTP(t, h)
	status := func(token string) int {
		const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+config.DefaultPath, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	defer http.DefaultClient.CloseIdleConnections()
	if old, now := status("old"), status("new"); old != 200 || now != 401 {
		t.Errorf("before: %d, %d", old, now)
	}
	reload(t, h, func(cfg *config.Config) { cfg.HTTP.Tokens = bearerTokens("new") })
	if old, now := status("old"), status("new"); old != 401 || now != 200 {
		t.Errorf("after: %d, %d", old, now)
	}
}

// TestReloadUnderLoad lets clients call continuously while upstreams are replaced,
// added and removed. No call fails, and none is lost.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	const sessions, reloaders, rounds = 3, 3, 3
	u := upstreamOf("raw", "raw")
	u.Isolation = config.PerSession
	h, _ := startHostFor(t, testConfig(t, u, upstreamOf("shared", "raw")), ManyClients)
	stop := make(chan struct{})
	var load, reloads sync.WaitGroup
	for i := range sessions {
		c := dial(t, h)
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("%d-%d", i, n)
				for _, tool := range []string{"raw__text", "shared__text"} {
					got := c.request("1", "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"text":%q}}`, tool, text))
					if want := fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text); !strings.Contains(got, want) {
						t.Errorf("%s: %s", tool, got)
						return
					}
				}
			}
		})
	}
	for i := range reloaders {
		reloads.Go(func() {
			for n := range rounds {
				reload(t, h, func(cfg *config.Config) {
					another := upstreamOf(fmt.Sprintf("more-%d-%d", i, n), "raw")
					another.Start = config.Lazy
					cfg.Upstreams[0].Env = map[string]string{upstreamEnv: "raw", "BY": fmt.Sprint(i, n)}
					cfg.Upstreams[1].Env = map[string]string{upstreamEnv: "raw", "BY": fmt.Sprint(i, n)}
					cfg.Upstreams = append(cfg.Upstreams[:2:2], another)
				})
			}
		})
	}
	reloads.Wait()
	close(stop)
	load.Wait()
}

func TestReloadOfAClosedHost(t *testing.T) {
	t.Parallel()
	h, err := New(testConfig(t), Options{Version: "test", CacheDir: guestCache, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	<-h.sandbox.Ready()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reload(testConfig(t, upstreamOf("raw", "raw"))); !errors.Is(err, wire.ErrClosed) {
		t.Errorf("error %v", err)
	}
}
