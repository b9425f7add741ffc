package builtin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// fakeHealth has reports of upstreams.
type fakeHealth []health.Report

func (w fakeHealth) CheckHealth(_ context.Context, _ route.Origin, server string) ([]health.Report, error) {
	var known []string
	for _, r := range w {
		if r.Server == server {
			return []health.Report{r}, nil
		}
		known = append(known, r.Server)
	}
	if server != "" {
		return nil, &health.UnknownError{Server: server, Known: known}
	}
	return w, nil
}

// idle returns a Composer that runs nothing.
func idle() *compose.Composer {
	return compose.New(compose.Options{Sandbox: new(sandbox.Sandbox), Log: quiet()})
}

func TestHealthCheck(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := fakeHealth{
		{Server: "github", State: servers.Ready, Since: &at, Check: health.OK, Method: "tools/list", Latency: 1.5, Probe: &health.ProbeReport{Tool: "x", Check: health.OK, Latency: 2}},
		{Server: "files", State: servers.Failed, Check: health.Failed, Error: "it exited", LastError: "it exited", Restarts: 2, RestartAt: &at},
		{Server: "lazy", State: health.Asleep, Check: health.Skipped},
	}
	for _, tt := range []struct {
		name             string
		fakeHealth       fakeHealth
		arguments        string
		text, structured string
		isError          bool
	}{
		{"all", all, `{}`, "files   failed  failed", `{"healthy":false,"servers":[{"server":"github","state":"ready","since":"2026-01-02T03:04:05Z","check":"ok","method":"tools/list","latency":1.5,"probe":{"tool":"x","check":"ok","latency":2},"restarts":0},`, false},
		{"one", all, `{"server":"lazy"}`, "lazy    asleep  skipped", `{"healthy":true,"servers":[{"server":"lazy","state":"asleep","check":"skipped","restarts":0}]}`, false},
		{"none", nil, `{}`, "No servers are configured.", `{"healthy":true,"servers":[]}`, false},
		{"nearly", all, `{"server":"git-hub"}`, `no server is called "git-hub" (did you mean github?)`, `"type":"validation"`, true},
		{"unknown", all, `{"server":"zzzzzzzzz"}`, `no server is called "zzzzzzzzz" (there are github, files, lazy)`, `"type":"validation"`, true},
		{"unknown of none", nil, `{"server":"x"}`, `no server is called "x"`, `"type":"validation"`, true},
		{"wrong argument", all, `{"sever":"x"}`, "sever", `"violations"`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := New(Options{Composer: idle(), Catalog: catalog.New(nil, quiet(), func(*catalog.Scope, wire.Surface, []byte) {}), Health: tt.fakeHealth, Log: quiet()})
			reply := h.CallTool(t.Context(), "health_check", route.Call{Params: fmt.Appendf(nil, `{"arguments":%s}`, tt.arguments)})
			structured, _ := wire.Get(reply.Result, "structuredContent")
			if text := textOf(t, reply); !strings.Contains(text, tt.text) || !strings.Contains(string(structured), tt.structured) {
				t.Errorf("got %s\n%s", text, structured)
			}
			if flag, _ := wire.Get(reply.Result, "isError"); string(flag) != fmt.Sprint(tt.isError) {
				t.Errorf("isError %s", flag)
			}
			if tt.isError {
				return
			}
			schema, err := tools.CompileSchema(healthTool("health_check", nil).RawOutputSchema, "outputSchema")
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(structured, nil); err != nil {
				t.Errorf("%s: %v", structured, err)
			}
		})
	}
}

func TestNoHealthCheck(t *testing.T) {
	h := New(Options{Composer: idle(), Catalog: catalog.New(nil, quiet(), func(*catalog.Scope, wire.Surface, []byte) {}), Log: quiet()})
	for _, e := range h.Entries() {
		if e.Name == "health_check" {
			t.Error("there is nothing to check, and a tool for it")
		}
	}
}

// TestHealthProblems checks that health_check says what does not work apart from servers.
func TestHealthProblems(t *testing.T) {
	problems := func() []string { return []string{"the store is lost"} }
	h := New(Options{Composer: idle(), Catalog: catalog.New(nil, quiet(), func(*catalog.Scope, wire.Surface, []byte) {}), Health: fakeHealth{}, Problems: problems, Log: quiet()})
	reply := h.CallTool(t.Context(), "health_check", route.Call{Params: []byte(`{"arguments":{}}`)})
	if got, want := string(reply.Result), `{"healthy":false,"servers":[],"problems":["the store is lost"]}`; !strings.Contains(got, want) || !strings.Contains(got, `! the store is lost`) {
		t.Errorf("%s, want %s", got, want)
	}
}
