package host

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// lazy is a server with start = "lazy", with the configuration of Hosts that run one
// after the other.
type lazy struct {
	*testing.T
	rawUpstream
	cfg *config.Config
}

func newLazy(t *testing.T) *lazy {
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{})
	up.config.Start = config.Lazy
	up.config.Env["API_TOKEN"] = "hunter2-hunter2"
	cfg := testConfig(t, up.config)
	cfg.Secrets = []string{"hunter2-hunter2"}
	return &lazy{t, up, cfg}
}

func (l *lazy) file() string { return filepath.Join(l.cfg.Store.Dir, "servers", "raw.json") }

// with calls f with a Host, which has ended when with returns.
func (l *lazy) with(name string, f func(t *testing.T, h *Host, p *mcptest.Pair)) {
	l.Run(name, func(t *testing.T) {
		w := serveProxy(t, combination{config.Stdio, config.Stdio}, l.received, l.cfg)
		f(t, w.host, pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), l.received))
	})
}

// first runs the server for the first time, and returns what a client sees.
func (l *lazy) first() (seen string) {
	l.with("first", func(t *testing.T, h *Host, p *mcptest.Pair) {
		seen = lists(t, p)
		wantState(t, h, servers.Ready)
	})
	return seen
}

// lists returns the answers to initialize and to all requests for lists, unchanged.
func lists(t *testing.T, p *mcptest.Pair) string {
	t.Helper()
	all := string(p.InitializeResponse.Msg.Result)
	for i, surface := range wire.Surfaces {
		e, err := p.Client.Request(bounded(t), fmt.Sprint(100+i), surface.ListMethod(), "")
		if err != nil {
			t.Fatal(err)
		}
		all += "\n" + string(e.Msg.Result)
	}
	return all
}

func wantState(t *testing.T, h *Host, want servers.State) servers.Status {
	t.Helper()
	st := h.Upstreams(t.Context())[0]
	if st.State != want {
		t.Errorf("state %s, want %s", st.State, want)
	}
	return st
}

func callRaw(t *testing.T, p *mcptest.Pair, tool, arguments string) string {
	t.Helper()
	e, err := p.Client.Request(bounded(t), `"call"`, "tools/call", mcptest.ToolParams(tool, arguments, ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(e.Raw)
}

// TestLazy checks that a server that has run once is not started the next time until it
// is needed, and that a change of its lists in between is announced.
func TestLazy(t *testing.T) {
	t.Parallel()
	l := newLazy(t)
	first := l.first()
	changed := ""
	l.with("asleep", func(t *testing.T, h *Host, p *mcptest.Pair) {
		before := l.received.Len()
		if seen := lists(t, p); seen != first {
			t.Errorf("asleep, it has\n%s\nand it had\n%s", seen, first)
		}
		for method, params := range map[string]string{
			"logging/setLevel": `{"level":"warning"}`, "tasks/list": "", "resources/unsubscribe": `{"uri":"raw://text"}`,
		} {
			if e, err := p.Client.Request(bounded(t), "1", method, params); err != nil || e.Msg.Error != nil {
				t.Errorf("%s: %s %v", method, e.Raw, err)
			}
		}
		st := wantState(t, h, health.Asleep)
		if st.Pid != 0 || st.ServerName != "raw" || st.Tools != len(mcptest.Tools) || st.Prompts != len(mcptest.Prompts) || st.ProtocolVersion == "" {
			t.Errorf("%+v", st)
		}
		if n := l.received.Len() - before; n != 0 {
			t.Errorf("it sleeps, and has got %d messages", n)
		}
		if got := callRaw(t, p, "instead", `{"text":"good morning"}`); !strings.Contains(got, "good morning") {
			t.Errorf("first call: %s", got)
		}
		wantState(t, h, servers.Ready)
		if e, _, err := l.received.Find(bounded(t), "the level", before, mcptest.Method("logging/setLevel")); err != nil || !strings.Contains(string(e.Raw), "warning") {
			t.Errorf("%s %v", e.Raw, err)
		}
		callRaw(t, p, "change", `{"list":"tools"}`)
		if _, _, err := p.Client.Log.Find(bounded(t), "the change", 0, mcptest.Method("notifications/tools/list_changed")); err != nil {
			t.Fatal(err)
		}
		if changed = lists(t, p); changed == first {
			t.Error("the list did not change")
		}
	})
	l.with("asleep again", func(t *testing.T, h *Host, p *mcptest.Pair) {
		if seen := lists(t, p); seen != changed {
			t.Errorf("the change was forgotten: it has\n%s\nand it had\n%s", seen, changed)
		}
		wantState(t, h, health.Asleep)
	})
	// The server starts with its original list, which is now in force.
	l.with("woken by a script", func(t *testing.T, h *Host, p *mcptest.Pair) {
		if got := callRaw(t, p, "eval_starlark", `{"code":"raw.instead(text='from a script')"}`); !strings.Contains(got, "from a script") {
			t.Errorf("%s", got)
		}
		wantState(t, h, servers.Ready)
		if seen := lists(t, p); seen != first {
			t.Errorf("awake, it has\n%s\nwant\n%s", seen, first)
		}
	})
}

// TestLazyForgets checks that nothing is remembered after the configuration has
// changed, or if the file is damaged.
func TestLazyForgets(t *testing.T) {
	t.Parallel()
	l := newLazy(t)
	l.first()
	data, err := os.ReadFile(l.file())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hunter2") {
		t.Error("there is a secret in the file")
	}
	if info, err := os.Stat(l.file()); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	want := func(name string, state servers.State) {
		t.Helper()
		l.with(name, func(t *testing.T, h *Host, _ *mcptest.Pair) { wantState(t, h, state) })
	}
	env := l.cfg.Upstreams[0].Env
	env["API_TOKEN"], l.cfg.Secrets = "another-token", []string{"another-token"}
	want("another secret", health.Asleep)
	env["MODE"] = "full"
	want("another environment", servers.Ready)
	want("the same environment", health.Asleep)
	for _, damage := range []string{"", "{", `{"of":1}`, strings.Replace(string(data), `"tools":{"items":[`, `"tools":{"items":[7,`, 1)} {
		if err := os.WriteFile(l.file(), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		want("damaged", servers.Ready)
		want("mended", health.Asleep)
	}
	l.cfg.Upstreams[0].Start = config.Eager
	want("eager", servers.Ready)
}

// TestLazyWithoutClient checks that lists that a server offers without a client do not
// replace those that it offers to a client.
func TestLazyWithoutClient(t *testing.T) {
	t.Parallel()
	l := newLazy(t)
	l.first()
	before, err := os.ReadFile(l.file())
	if err != nil {
		t.Fatal(err)
	}
	l.cfg.Upstreams[0].Start = config.Eager
	t.Run("nobody", func(t *testing.T) {
		h, _ := startHostFor(t, l.cfg, NoClient)
		wantState(t, h, servers.Ready)
		conn, ok := h.upstreams.For(nil, "raw")
		if !ok {
			t.Fatal("no connection")
		}
		if _, err := conn.Call(bounded(t), wire.Call{Method: "tools/call", Params: []byte(mcptest.ToolParams("change", `{"list":"tools"}`, ""))}); err != nil {
			t.Fatal(err)
		}
	})
	if after, err := os.ReadFile(l.file()); err != nil || string(after) != string(before) {
		t.Errorf("it was replaced (%v)", err)
	}
}

// heldOutput is the output of a server. Nothing is read from it before until is closed.
type heldOutput struct {
	io.ReadCloser
	until <-chan struct{}
}

func (h heldOutput) Read(p []byte) (int, error) {
	<-h.until
	return h.ReadCloser.Read(p)
}

// TestEagerReplacesRememberedLists checks that a client gets the remembered lists of a server that
// is started with us, and the next client gets the actual ones.
func TestEagerReplacesRememberedLists(t *testing.T) {
	t.Parallel()
	l := newLazy(t)
	l.first()
	data, err := os.ReadFile(l.file())
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(data), `"prompts":{"listChanged":true}`, `"x":{}`, 1)
	if old == string(data) {
		t.Fatalf("no prompts in %s", data)
	}
	if err := os.WriteFile(l.file(), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	l.cfg.Upstreams[0].Start = config.Eager
	for _, prompts := range []bool{false, true} {
		l.Run(fmt.Sprint("prompts ", prompts), func(t *testing.T) {
			// Otherwise the server could answer before the client is initialized.
			initialized := make(chan struct{})
			release := sync.OnceFunc(func() { close(initialized) })
			defer release()
			start := serversHere(t)
			w := serveProxyOf(t, combination{config.Stdio, config.Stdio}, l.received, l.cfg, Options{
				streams: func(spec servers.Spec) (io.ReadCloser, io.WriteCloser, bool) {
					out, in, ok := start(spec)
					return heldOutput{out, initialized}, in, ok
				},
			})
			p := pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), l.received)
			release()
			if _, ok := wire.Get(p.InitializeResponse.Msg.Result, "capabilities", "prompts"); ok != prompts {
				t.Errorf("%s", p.InitializeResponse.Raw)
			}
			wantState(t, w.host, servers.Ready)
			if got := lists(t, p); !strings.Contains(got, `"`+mcptest.Prompts[0]+`"`) { // the list can be requested without the capability
				t.Errorf("%s", got)
			}
		})
	}
}
