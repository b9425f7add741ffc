package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// overHTTP is a combination in which a Host has several sessions.
var overHTTP = combination{config.StreamableHTTP, config.Stdio}

// TestOwnUpstreamAsksItsSession checks that the processes of two sessions, both with
// calls in flight, send their requests to their own client, and that each was started
// with that client's identity.
func TestOwnUpstreamAsksItsSession(t *testing.T) {
	t.Parallel()
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{})
	up.config.Isolation = config.PerSession
	w := serveProxy(t, overHTTP, up.received, testConfig(t, up.config))
	var pairs [2]*mcptest.Pair
	for i := range pairs {
		script := func(_ *mcptest.Client, m wire.Message) wire.Reply {
			return wire.Reply{Result: fmt.Appendf(nil, `{"roots":[{"uri":"file:///session/%d"}]}`, i)}
		}
		pairs[i] = pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: script}), up.received)
		pairs[i].Client.Start("1", "tools/call", mcptest.ToolParams("wait", "{}", "1"))
		if _, _, err := pairs[i].Client.Log.Find(bounded(t), "progress", 0, mcptest.ProgressWith("1")); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range pairs {
		e, err := p.Client.Request(bounded(t), "2", "tools/call", mcptest.ToolParams("ask", `{"method":"roots/list"}`, ""))
		if err != nil || !strings.Contains(string(e.Raw), fmt.Sprintf("file:///session/%d", i)) {
			t.Errorf("session %d: %s %v", i, e.Raw, err)
		}
		asked := 0
		for _, e := range p.Client.Log.All() {
			if e.Msg.IsRequest() {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("session %d was asked %d times", i, asked)
		}
	}
	hellos := 0
	for _, e := range up.received.All() {
		if e.Msg.Method == "initialize" {
			hellos++
			if !strings.Contains(string(e.Msg.Params), `"name":"raw client"`) {
				t.Errorf("a process was started as %s", e.Raw)
			}
		}
	}
	if hellos != len(pairs) {
		t.Errorf("%d processes for %d sessions", hellos, len(pairs))
	}
	for _, p := range pairs {
		if err := p.Client.Notify("notifications/cancelled", `{"requestId":1}`); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOwnUpstreamEndsWithItsSession checks that the process of a session ends with
// DELETE, and that of another session does not.
func TestOwnUpstreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	u := upstreamOf("raw", "raw")
	u.Isolation = config.PerSession
	w := serveProxy(t, overHTTP, nil, testConfig(t, u, upstreamOf("shared", "raw")))
	call := func(p *mcptest.Pair, tool string) string {
		t.Helper()
		e, err := p.Client.Request(bounded(t), `"pid"`, "tools/call", mcptest.ToolParams(tool, "{}", ""))
		if err != nil {
			t.Fatal(err)
		}
		return pidIn(t, string(e.Msg.Result))
	}
	one := pair(t, w.dial(t, mcptest.ClientOptions{}), nil)
	two := pair(t, w.dial(t, mcptest.ClientOptions{}), nil)
	if e, err := one.Client.Request(bounded(t), "1", "tools/list", ""); err != nil || !strings.Contains(string(e.Raw), `"raw__pid"`) {
		t.Errorf("list: %s %v", e.Raw, err)
	}
	first, second := call(one, "raw__pid"), call(two, "raw__pid")
	if first == second || call(one, "raw__pid") != first || call(one, "shared__pid") != call(two, "shared__pid") {
		t.Errorf("processes %s and %s", first, second)
	}
	g := newGate(t) // a call in flight when the session ends, which shows that its process lives
	one.Client.Start("2", "tools/call", mcptest.ToolParams("raw__gate", fmt.Sprintf(`{"address":%q}`, g.Addr()), ""))
	g.accept(t)
	if err := one.Client.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
	g.gone(t)
	if call(two, "raw__pid") != second {
		t.Error("the other session's process has gone too")
	}
	if n := w.host.upstreams.Running(); n != 2 {
		t.Errorf("%d upstreams for one session", n)
	}
}

// TestOwnLazyUpstream checks that a session's own process does not run before it is
// used.
func TestOwnLazyUpstream(t *testing.T) {
	t.Parallel()
	l := newLazy(t)
	l.cfg.Upstreams[0].Isolation = config.PerSession
	first := l.first()
	w := serveProxy(t, overHTTP, l.received, l.cfg)
	before := l.received.Len()
	one := pair(t, w.dial(t, mcptest.ClientOptions{}), l.received)
	two := pair(t, w.dial(t, mcptest.ClientOptions{}), l.received)
	if got := lists(t, one); got != first {
		t.Errorf("asleep, it has\n%s\nand it had\n%s", got, first)
	}
	if n := l.received.Len() - before; n != 0 {
		t.Errorf("it sleeps, and has got %d messages", n)
	}
	if got := callRaw(t, two, "instead", `{"text":"good morning"}`); !strings.Contains(got, "good morning") {
		t.Errorf("%s", got)
	}
	var states []servers.State
	for _, st := range w.host.Upstreams(bounded(t)) {
		states = append(states, st.State)
	}
	slices.Sort(states)
	if !slices.Equal(states, []servers.State{health.Asleep, servers.Ready}) {
		t.Errorf("states %v", states)
	}
}

// TestOwnUpstreamThatIsSlow checks that a session whose own process is still starting
// sees the lists of another session's, and that neither waits for it.
func TestOwnUpstreamThatIsSlow(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	u := upstreamOf("slow", "late")
	u.Isolation, u.Args, u.Timeout = config.PerSession, []string{g.Addr().String()}, time.Hour
	cfg := testConfig(t, u)
	cfg.StartupWait, cfg.HTTP.UnusedTTL, cfg.HTTP.SessionTTL = time.Hour, time.Hour, time.Hour
	w := serveProxy(t, overHTTP, nil, cfg)
	w.host.router.HandshakeWait = time.Millisecond // it is not over when sessions begin
	session := func(opened bool) *mcptest.Pair {
		client := w.dial(t, mcptest.ClientOptions{})
		welcome := client.Start(`"init"`, "initialize", mcptest.ClientParams)
		g.accept(t)
		if opened {
			g.conn.Close()
		}
		select {
		case a := <-welcome:
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		case <-bounded(t).Done():
			t.Fatal("no answer to initialize")
		}
		t.Cleanup(func() { _ = client.Close(bounded(t)) })
		return &mcptest.Pair{Client: client}
	}
	lists := func(p *mcptest.Pair) {
		t.Helper()
		if e, err := p.Client.Request(bounded(t), "1", "tools/list", ""); err != nil || !strings.Contains(string(e.Raw), `"slow__pid"`) {
			t.Errorf("list: %s %v", e.Raw, err)
		}
	}
	one := session(true)
	lists(one) // its process has listed before the other one begins
	lists(session(false))
	lists(one)
	g.conn.Close()
}
