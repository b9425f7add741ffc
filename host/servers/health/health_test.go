package health

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// start runs a server of mcptest as a real upstream, and waits until its first start
// has succeeded or failed.
func start(t *testing.T, name string, sw mcptest.ServerOptions) *servers.Upstream {
	t.Helper()
	sw.PageSize = 1000 // so that listing takes one request
	spec := servers.Spec{Name: name, Command: os.Args[0], Timeout: time.Minute, Restart: servers.RestartNever}
	for k, v := range sw.Environ() {
		spec.Env = append(spec.Env, k+"="+v)
	}
	return run(t, spec)
}

func run(t *testing.T, spec servers.Spec) *servers.Upstream {
	up := servers.Start(spec, servers.Options{ClientName: "t"})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := up.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	<-up.Started()
	return up
}

// second makes all but the first request of that kind fail, so that the server starts
// well.
func second(kind string) map[string]mcptest.Fault {
	return map[string]mcptest.Fault{"tools/list": {Kind: kind, Skip: 1}}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	secretive := start(t, "secretive", mcptest.ServerOptions{Faults: map[string]mcptest.Fault{"tools/list": {Kind: mcptest.CrashBefore, Skip: 1}}})
	targets := []Target{
		{Name: "good", Connection: start(t, "good", mcptest.ServerOptions{}), Probe: &config.Probe{Call: "echo", Params: []byte(`{"a":1}`), Timeout: time.Minute}},
		{Name: "plain", Connection: start(t, "plain", mcptest.ServerOptions{Capabilities: "{}"})},
		{Name: "crash", Connection: secretive},
		{Name: "gone", Connection: run(t, servers.Spec{Name: "gone", Command: "no-such-command-anywhere", Restart: servers.RestartNever})},
		{Name: "off"},
	}
	reports := Checker{Timeout: time.Minute}.Check(t.Context(), targets)
	for i, want := range []struct {
		state  servers.State
		check  Outcome
		method string
		err    string
	}{
		{servers.Ready, OK, "tools/list", ""},
		{servers.Ready, OK, "ping", ""},
		{servers.Failed, Failed, "tools/list", "exit"},
		{servers.Failed, Failed, "", "no-such-command-anywhere"},
		{Disabled, Skipped, "", ""},
	} {
		r := reports[i]
		if r.Server != targets[i].Name || r.State != want.state || r.Check != want.check || r.Method != want.method {
			t.Errorf("%+v", r)
		}
		if (want.err == "") != (r.Error == "") || !strings.Contains(r.Error, want.err) || strings.Contains(r.Error, "upstream ") {
			t.Errorf("%s: error %q", r.Server, r.Error)
		}
		if (want.check == OK) != (r.Latency > 0) {
			t.Errorf("%s: latency %v", r.Server, r.Latency)
		}
	}
	if p := reports[0].Probe; p == nil || p.Check != OK || p.Latency <= 0 {
		t.Errorf("probe %+v", p)
	}
	if Healthy(reports) || !Healthy(reports[:2]) {
		t.Error("Healthy")
	}
}

// TestHangDoesNotDelayOthers checks that an upstream that hangs does not delay the check of
// another one.
func TestHangDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	good := after{Connection: start(t, "good", mcptest.ServerOptions{}), f: cancel}
	hang := start(t, "hang", mcptest.ServerOptions{Faults: second(mcptest.Hang)})
	reports := Checker{Timeout: time.Minute}.Check(ctx, []Target{{Name: "hang", Connection: hang}, {Name: "good", Connection: good}})
	if reports[0].Check != Failed || reports[1].Check != OK {
		t.Errorf("%+v", reports)
	}
}

// after calls f after each call.
type after struct {
	Connection
	f func()
}

func (c after) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	defer c.f()
	return c.Connection.Call(ctx, call)
}

// TestCheckIsBounded checks that the check of an upstream that hangs ends with its timeout.
func TestCheckIsBounded(t *testing.T) {
	t.Parallel()
	const within = 50 * time.Millisecond
	hang := start(t, "hang", mcptest.ServerOptions{Faults: second(mcptest.Hang)})
	probed := start(t, "probed", mcptest.ServerOptions{})
	reports := Checker{Timeout: within}.Check(t.Context(), []Target{{Name: "hang", Connection: hang}})
	reports = append(reports, Checker{Timeout: time.Minute}.Check(t.Context(), []Target{
		{Name: "probed", Connection: probed, Probe: &config.Probe{Call: "wait", Params: []byte("{}"), Timeout: within}},
	})...)
	for i, want := range []string{"no answer to tools/list within 50ms", "probe wait: no answer to tools/call within 50ms"} {
		if r := reports[i]; r.Check != Failed || r.Error != want || r.State != servers.Ready {
			t.Errorf("%+v", r)
		}
	}
}

// sleeper is an upstream that is asleep until Ready is called, and then never becomes
// ready.
type sleeper struct {
	Connection
	woken *int
}

func (s sleeper) Status() servers.Status {
	if *s.woken > 0 {
		return servers.Status{State: servers.Starting, Since: time.Now(), Restarts: 3}
	}
	return servers.Status{State: Asleep}
}

func (s sleeper) Ready(ctx context.Context) error {
	*s.woken++
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestAsleep(t *testing.T) {
	t.Parallel()
	woken := 0
	c := Checker{Timeout: time.Minute, WakeTimeout: time.Millisecond}
	r := c.Check(t.Context(), []Target{{Name: "lazy", Connection: sleeper{woken: &woken}}})[0]
	if r.State != Asleep || r.Check != Skipped || r.Error != "" || woken != 0 {
		t.Errorf("%+v, woken %d times", r, woken)
	}
	r = c.Check(t.Context(), []Target{{Name: "lazy", Connection: sleeper{woken: &woken}, Wake: true}})[0]
	if r.State != servers.Starting || r.Check != Failed || r.Error != "is still starting after 1ms" || woken != 1 || r.Restarts != 3 {
		t.Errorf("%+v, woken %d times", r, woken)
	}
}

func TestReportText(t *testing.T) {
	t.Parallel()
	reports := []Report{
		{Server: "good", State: servers.Ready, Check: OK, Latency: 1.26, Probe: &ProbeReport{Check: OK, Latency: 12.6}},
		{Server: "was-down", State: servers.Ready, Check: OK, Latency: 2, LastError: "it exited\x1b[2J", Restarts: 2},
		{Server: "down", State: servers.Failed, Check: Failed, Error: "it\nexited", LastError: "it exited", Restarts: 1},
		{Server: "bad", State: servers.Ready, Check: Failed, Latency: 3, Error: "probe x: y", Probe: &ProbeReport{Check: Failed, Error: "y"}},
		{Server: "lazy", State: Asleep, Check: Skipped},
	}
	want := `SERVER    STATE   CHECK    LATENCY  PROBE   RESTARTS  ERROR
good      ready   ok       1.3ms    13ms    0         
was-down  ready   ok       2ms      -       2         earlier: it exited` + "\ufffd" + `[2J
down      failed  failed   -        -       1         it exited
bad       ready   failed   3ms      failed  0         probe x: y
lazy      asleep  skipped  -        -       -         
`
	if got := Table(reports); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	raw, err := json.Marshal(reports[4])
	if want := `{"server":"lazy","state":"asleep","check":"skipped","restarts":0}`; err != nil || string(raw) != want {
		t.Errorf("got %s, want %s", raw, want)
	}
}

func TestLastErrorIsMasked(t *testing.T) {
	t.Parallel()
	st := servers.Status{
		Name: "x", State: servers.Failed,
		Err: "upstream \"x\": the process exited with status 3, hunter2-hunter2; its last lines on stderr:\ncannot reach hunter2-hunter2\nbye",
	}
	c := Checker{Details: true, Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2-hunter2", "****") }}
	var r Report
	c.addStatus(&r, st)
	if r.LastError != "the process exited with status 3, ****; its last lines on stderr:" || strings.Join(r.Details, "|") != "cannot reach ****|bye" {
		t.Errorf("%+v", r)
	}
	c.Details = false
	r = Report{}
	if c.addStatus(&r, st); r.LastError != "the process exited with status 3, ****" || r.Details != nil {
		t.Errorf("%+v", r)
	}
}

// TestSlowedIsShown checks that a report says if an upstream is read slowly.
func TestSlowedIsShown(t *testing.T) {
	t.Parallel()
	var r Report
	Checker{}.addStatus(&r, servers.Status{Name: "x", State: servers.Ready, SlowedSince: time.Unix(1, 0)})
	if r.SlowedSince == nil || !strings.Contains(Table([]Report{r}), "is read slowly") {
		t.Errorf("%+v", r)
	}
}
