package supervise

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// hanging is a server that does not answer initialize.
var hanging = mcptest.ServerOptions{Faults: map[string]mcptest.Fault{"initialize": {Kind: mcptest.Hang}}}

// lateFile is the saved state of an upstream that was late and never ready.
func lateFile(t testing.TB, cfg *config.Config, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cfg.Store.Dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestLateUpstreamIsWaitedForBriefly checks that the wait for an upstream that was not ready in
// time in the last run is shorter than for an upstream without a history.
func TestLateUpstreamIsWaitedForBriefly(t *testing.T) {
	t.Parallel()
	late, _ := server(t, "late", hanging)
	cfg := configOf(t, late)
	cfg.StartupWait = time.Millisecond
	start(t, cfg, OneClient).Settled(bounded(t)) // the wait runs out
	if got := lateFile(t, cfg, "late"); !strings.HasSuffix(got, `,"late":true}`+"\n") {
		t.Errorf("saved %s", got)
	}

	for name, wait := range map[string]func(ctx context.Context, r *rig){
		"list":   func(ctx context.Context, r *rig) { r.Settled(ctx) },
		"script": func(ctx context.Context, r *rig) { r.Started(ctx) },
		"initialize": func(ctx context.Context, r *rig) {
			ctx, cancel := context.WithTimeout(ctx, r.cfg.Load().StartupWait)
			defer cancel()
			c, _ := r.For(nil, r.cfg.Load().Upstreams[0].Name)
			if _, err := c.Handshake(ctx); err == nil {
				t.Error("there was a handshake")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			unknown, _ := server(t, "unknown", hanging)
			of := map[string]*config.Config{"unknown": configOf(t, unknown), "late": configOf(t, late)}
			of["late"].Store = cfg.Store
			ctx, cancel := context.WithCancel(bounded(t))
			first := make(chan string, len(of))
			var waiting sync.WaitGroup
			of["unknown"].StartupWait, of["late"].StartupWait = time.Minute, time.Second
			for name := range of {
				r := start(t, of[name], OneClient)
				waiting.Go(func() {
					wait(ctx, r)
					first <- name
				})
			}
			if got := <-first; got != "late" {
				t.Errorf("the %s one was waited for less long", got)
			}
			cancel()
			waiting.Wait()
		})
	}
}

// TestFailedUpstreamIsLate checks that an upstream with a failed start is late until the upstream
// has been ready, and that the snapshot is kept.
func TestFailedUpstreamIsLate(t *testing.T) {
	t.Parallel()
	u, s := server(t, "u", mcptest.ServerOptions{Faults: map[string]mcptest.Fault{"initialize": {Kind: mcptest.CrashBefore, Skip: 1, Times: 1}}})
	gate := make(chan struct{}, 1) // requests are answered while gate holds a token
	gate <- struct{}{}
	gated := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gate <- <-gate
		s.HTTP().ServeHTTP(w, r)
	}))
	t.Cleanup(gated.Close)
	t.Cleanup(s.Close)
	u.URL, u.Restart = gated.URL, config.RestartNever
	cfg := configOf(t, u)
	run := func(clients Clients, ready bool) (file string) {
		t.Helper()
		r := start(t, cfg, clients)
		r.BeginSession(&session{})
		c, _ := r.For(nil, "u")
		if err := c.Ready(bounded(t)); (err == nil) != ready {
			t.Errorf("ready: %v", err)
		}
		if err := r.Close(bounded(t)); err != nil {
			t.Error(err)
		}
		return lateFile(t, cfg, "u")
	}
	before := run(OneClient, true)
	if strings.Contains(before, `"late"`) {
		t.Errorf("it was ready, and is late")
	}
	if got, want := run(OneClient, false), strings.TrimSuffix(before, "}\n")+`,"late":true}`+"\n"; got != want {
		t.Errorf("saved\n%s\nwant\n%s", got, want)
	}
	<-gate                       // the upstream is not ready before the check
	r := start(t, cfg, NoClient) // for which the upstream need not be remembered
	if known := r.all()[0].snapshot(); !known.Late || len(known.Lists[wire.Tools].Items) != 0 {
		t.Errorf("%d tools, late %v", len(known.Lists[wire.Tools].Items), known.Late)
	}
	if err := r.Close(bounded(t)); err != nil {
		t.Error(err)
	}
	gate <- struct{}{}
	if got := run(NoClient, true); got != before {
		t.Errorf("saved\n%s\nwant\n%s", got, before)
	}
}

// TestLateHandshakeShortensNoWaitOfThisRun checks that a client that gives up waiting for a
// handshake shortens the waits of the next run, but not the wait for the first list, which follows
// immediately.
func TestLateHandshakeShortensNoWaitOfThisRun(t *testing.T) {
	t.Parallel()
	u, _ := server(t, "u", hanging)
	cfg := configOf(t, u)
	run := func(want time.Duration) {
		t.Helper()
		r := start(t, cfg, OneClient)
		m := r.all()[0]
		ctx, cancel := context.WithTimeout(bounded(t), testenv.Quiet(time.Millisecond))
		defer cancel()
		if _, err := m.Handshake(ctx); err == nil {
			t.Error("there was a handshake")
		}
		if got := m.startWait(10 * time.Second); got != want {
			t.Errorf("a wait of %v, want %v", got, want)
		}
		if err := r.Close(bounded(t)); err != nil {
			t.Error(err)
		}
		if got := lateFile(t, cfg, "u"); !strings.HasSuffix(got, `,"late":true}`+"\n") {
			t.Errorf("saved %s", got)
		}
	}
	run(10 * time.Second)
	run(2 * time.Second)
}

// TestCommandsWaitForLateUpstreams checks that the wait of a command for the lists of a late
// upstream is not shortened: the command's only call may be the call of a tool in the lists.
func TestCommandsWaitForLateUpstreams(t *testing.T) {
	t.Parallel()
	u, _ := server(t, "u", hanging)
	cfg := configOf(t, u)
	cfg.StartupWait = time.Millisecond
	start(t, cfg, OneClient).Settled(bounded(t)) // the upstream is late from now on
	for clients, want := range map[Clients]time.Duration{NoClient: 10 * time.Second, OneClient: 2 * time.Second, ManyClients: 2 * time.Second} {
		m := start(t, cfg, clients).all()[0]
		if got := m.listWait(10 * time.Second); got != want {
			t.Errorf("clients %d: a wait of %v, want %v", clients, got, want)
		}
		if got := m.startWait(time.Second); got != 200*time.Millisecond {
			t.Errorf("clients %d: a wait of %v for the handshake", clients, got)
		}
	}
}
