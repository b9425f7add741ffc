package host

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// TestHealthCheck checks the health of upstreams with the tool.
func TestHealthCheck(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	good, down, off := upstreamOf("go-od", "raw"), inOwnProcess(upstreamOf("down", "raw")), upstreamOf("off", "raw")
	good.Probe = &config.Probe{Call: "text", Params: []byte(`{"text":"it is fine"}`), Expect: &config.Expectation{Text: "fine"}, Timeout: time.Minute}
	wrong := good
	wrong.Name, wrong.Probe = "wrong", &config.Probe{
		Call: "text", Params: []byte(`{"text":"` + secret + `"}`), Expect: &config.Expectation{Pattern: "^" + secret + "!$"}, Timeout: time.Minute,
	}
	down.Restart, off.Disabled = config.RestartNever, true
	cfg := testConfig(t, good, wrong, down, off)
	cfg.Secrets = []string{secret}
	h, _ := startHost(t, cfg)
	c := dial(t, h)
	c.call("down__exit", `{}`)

	result := c.call("health_check", `{}`)
	structured, _ := wire.Get([]byte(result), "structuredContent")
	if healthy, _ := wire.Get(structured, "healthy"); string(healthy) != "false" || strings.Contains(result, secret) || !strings.Contains(result, `"isError":false`) {
		t.Errorf("%s", result)
	}
	if strings.Contains(result, "told to exit") {
		t.Errorf("an agent is shown what a server wrote to stderr: %s", result)
	}
	servers, _ := wire.Get(structured, "servers")
	items, err := wire.Elements(servers)
	if err != nil || len(items) != 4 {
		t.Fatalf("%s", structured)
	}
	for i, want := range []map[string]string{
		{"server": `"go-od"`, "state": `"ready"`, "check": `"ok"`, "method": `"tools/list"`, "restarts": "0"},
		{"server": `"wrong"`, "state": `"ready"`, "check": `"failed"`, "error": `"probe text: answered \"****\", which does not match /^****!$/"`},
		{"server": `"down"`, "state": `"failed"`, "check": `"failed"`},
		{"server": `"off"`, "state": `"disabled"`, "check": `"skipped"`},
	} {
		for name, value := range want {
			if got, _ := wire.Get(items[i], name); string(got) != value {
				t.Errorf("%s is %s, want %s: %s", name, got, value, items[i])
			}
		}
	}

	result = c.call("health_check", `{"server":"go_od"}`) // the script name
	if !strings.Contains(result, `"healthy":true`) || strings.Contains(result, "wrong") {
		t.Errorf("%s", result)
	}
	if result = c.call("health_check", `{"server":"dwn"}`); !strings.Contains(result, "did you mean down?") {
		t.Errorf("%s", result)
	}

	h.RefusedReload("config.toml: it is no TOML")
	if result = c.call("health_check", `{}`); strings.Count(result, "config.toml: it is no TOML") != 2 {
		t.Errorf("after a refused reload: %s", result)
	}
	h.RefusedReload("")
	if result = c.call("health_check", `{}`); strings.Contains(result, "problems") {
		t.Errorf("after another reload: %s", result)
	}

	report := h.Checkup(t.Context())[2]
	if len(report.Details) != 1 || !strings.Contains(report.Details[0], "told to exit") || report.Check != health.Failed {
		t.Errorf("%+v", report)
	}
}

// TestHealthOfLazyUpstream checks that a lazy upstream is not started unless the
// health check names it.
func TestHealthOfLazyUpstream(t *testing.T) {
	t.Parallel()
	l := newLazy(t)
	l.first()
	l.with("asleep", func(t *testing.T, h *Host, p *mcptest.Pair) {
		if got := callRaw(t, p, "health_check", "{}"); !strings.Contains(got, `"state":"asleep","check":"skipped"`) || !strings.Contains(got, `"healthy":true`) {
			t.Errorf("%s", got)
		}
		wantState(t, h, health.Asleep)
		if got := callRaw(t, p, "health_check", `{"server":"raw"}`); !strings.Contains(got, `"state":"ready"`) || !strings.Contains(got, `"check":"ok"`) {
			t.Errorf("%s", got)
		}
	})
}

// TestHealthAsksItsSession runs probes for two sessions that send requests to the
// client.
func TestHealthAsksItsSession(t *testing.T) {
	t.Parallel()
	up := startRaw(t, config.StreamableHTTP, mcptest.ServerOptions{})
	up.config.Probe = &config.Probe{Call: "ask", Params: []byte(`{"method":"roots/list"}`), Timeout: time.Minute}
	w := serveProxy(t, combination{config.StreamableHTTP, config.StreamableHTTP}, up.received, testConfig(t, up.config))
	var pairs [2]*mcptest.Pair
	for i := range pairs {
		pairs[i] = pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), up.received)
	}
	if got := callRaw(t, pairs[1], "health_check", "{}"); !strings.Contains(got, `"healthy":true`) {
		t.Errorf("%s", got)
	}
	for i, p := range pairs {
		asked := 0
		for _, e := range p.Client.Log.All() {
			if e.Msg.IsRequest() {
				asked++
			}
		}
		if asked != i {
			t.Errorf("session %d was asked %d times", i, asked)
		}
	}
}
