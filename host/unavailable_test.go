package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// unavailableServers returns a Host whose servers are all down, each for another
// reason.
func unavailableServers(t *testing.T) *Host {
	missing := upstreamOf("missing", "raw")
	missing.Command, missing.Hide = "no-such-command-hunter2-hunter2", []string{"forbidden"}
	never := upstreamOf("never", "raw")
	never.Command, never.Restart = "no-such-command-anywhere", config.RestartNever
	off := upstreamOf("off-duty", "raw")
	off.Disabled = true
	late := upstreamOf("late", "late")
	g := newGate(t)
	late.Args = []string{g.Addr().String()}
	gone := inOwnProcess(upstreamOf("gone", "raw")) // with a last word on standard error
	gone.Restart = config.RestartNever
	cfg := testConfig(t, missing, never, off, late, gone)
	cfg.Secrets = []string{"hunter2-hunter2"}
	cfg.StartupWait = time.Millisecond
	h, _ := startHost(t, cfg)
	h.router.HandshakeWait = time.Millisecond // late is late
	t.Cleanup(func() {                        // so that it ends at once
		g.accept(t)
		g.conn.Close()
	})
	for _, server := range []string{"missing", "never"} {
		if _, err := h.Snapshot(bounded(t), server); err == nil {
			t.Fatalf("%s has started", server)
		}
	}
	if _, err := h.Snapshot(bounded(t), "gone"); err != nil {
		t.Fatal(err)
	}
	dial(t, h).call("gone__exit", `{}`)
	for ctx := bounded(t); ; time.Sleep(time.Millisecond) { // Snapshot says nothing about its end
		all := h.upstreams.States()
		st := all[slices.IndexFunc(all, func(st servers.Status) bool { return st.Name == "gone" })]
		if st.State == servers.Failed && strings.Contains(st.Err, stderrOfGone) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("%+v", st)
		}
	}
	return h
}

// stderrOfGone is part of what the server "gone" has written to standard error. Only the user may
// see it.
const stderrOfGone = "told to exit"

// TestUnavailableServers checks that requests for an unavailable server are answered with
// the reason, but without what the server has written to standard error.
func TestUnavailableServers(t *testing.T) {
	t.Parallel()
	h := unavailableServers(t)
	c := dial(t, h)
	for server, why := range map[string]string{
		"missing": `server \"missing\" is down`, "never": `it is not restarted, because its configuration has restart = \"never\"`,
		"off-duty": `server \"off-duty\" is disabled in the configuration`, "late": `server \"late\" is still starting`,
		"gone": "its process ended: exit status 3",
	} {
		ident := strings.ReplaceAll(server, "-", "_")
		answers := []string{
			c.call(server+"__text", `{"text":"x"}`),
			c.call("search_tools", `{"query":"text"}`),
			c.call("search_tools", fmt.Sprintf(`{"server":%q}`, server)),
			c.call("describe_tool", fmt.Sprintf(`{"name":"%s.text"}`, ident)),
			c.request("1", "prompts/get", fmt.Sprintf(`{"name":"%s__x"}`, server)),
		}
		if !strings.Contains(answers[0], `"isError":true`) {
			t.Errorf("%s: %s", server, answers[0])
		}
		for i, got := range answers {
			if !strings.Contains(got, why) {
				t.Errorf("%s, answer %d: %s\nwant %s", server, i, got, why)
			}
			if strings.Contains(got, "hunter2") || strings.Contains(got, stderrOfGone) {
				t.Errorf("what clients must not see: %s", got)
			}
		}
	}
	for _, name := range []string{"missing__forbidden", "missing", "other__text"} {
		if got := c.request("1", "tools/call", fmt.Sprintf(`{"name":%q}`, name)); !strings.Contains(got, `"message":"unknown tool: `+name) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestUnavailableServersInScripts checks that scripts can catch the error for an unavailable
// server, and that saving a script that needs the server warns, unless its tools are
// known. Both say why it is unavailable.
func TestUnavailableServersInScripts(t *testing.T) {
	t.Parallel()
	h := unavailableServers(t)
	c := dial(t, h)
	for server, why := range map[string]string{
		"missing": `upstream \"missing\": `, "never": `upstream \"never\": `, "off_duty": `server \"off-duty\" is disabled in the configuration`,
		"gone": `upstream \"gone\": `,
	} {
		got := c.call("eval_starlark", fmt.Sprintf(`{"code":"try:\n    %s.text(text='x')\nexcept ToolError as e:\n    return [e.type, e.message]"}`, server))
		if !strings.Contains(got, `"result":["tool",`) || !strings.Contains(got, why) || strings.Contains(got, "hunter2") || strings.Contains(got, stderrOfGone) {
			t.Errorf("%s: %s", server, got)
		}
		got = c.call("save_tool", fmt.Sprintf(`{"name":"uses_%s","description":"d","inputSchema":{"type":"object"},"code":"%s.text(text='x')\n%s.text(text='y')"}`, server, server, server))
		if warned, _ := wire.Get([]byte(got), "structuredContent", "warnings"); server != "gone" && !strings.Contains(string(warned), why) || strings.Contains(got, stderrOfGone) {
			t.Errorf("%s: saved with %s", server, got)
		}
	}
}

// TestUnavailableServersInInstructions checks that the instructions of a new session name
// the servers that are down.
func TestUnavailableServersInInstructions(t *testing.T) {
	t.Parallel()
	h := unavailableServers(t)
	w, err := h.router.BeginSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.router.EndSession(nil)
	for _, want := range []string{`Not there now: server "missing" is down`, `Not there now: server "never" is down: `, `Not there now: server "gone" is down: `} {
		if !strings.Contains(w.Instructions, want) {
			t.Errorf("instructions lack %q: %s", want, w.Instructions)
		}
	}
	if strings.Contains(w.Instructions, `server "late"`) || strings.Contains(w.Instructions, "hunter2") || strings.Contains(w.Instructions, stderrOfGone) {
		t.Errorf("instructions: %s", w.Instructions)
	}
}

// TestAwaitOwner checks that a command can wait for the server of a tool whatever startup_wait says.
func TestAwaitOwner(t *testing.T) {
	t.Parallel()
	late, gate := upstreamOf("late", "late"), newGate(t)
	late.Args = []string{gate.Addr().String()}
	cfg := testConfig(t, late)
	cfg.StartupWait = 0
	h, _ := startHost(t, cfg)
	h.router.HandshakeWait = time.Millisecond // late is late
	for _, tool := range []string{"other__x", "x"} {
		h.AwaitOwner(t.Context(), tool) // at once
	}
	c := dial(t, h)
	if got := c.call("late__text", `{"text":"hi"}`); !strings.Contains(got, "is still starting") {
		t.Errorf("before: %s", got)
	}
	gate.accept(t)
	gate.open(t)
	h.AwaitOwner(t.Context(), "late__text")
	if got := c.call("late__text", `{"text":"hi"}`); !strings.Contains(got, `"text":"hi"`) {
		t.Errorf("after: %s", got)
	}
}
