package host

import (
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// hideText changes the configuration so that it hides the tool text.
func hideText(t testing.TB, h *Host) {
	reload(t, h, func(cfg *config.Config) { cfg.Upstreams[0].Hide = []string{"text"} })
}

// TestUndoChecksPermissionAgain checks that a compensating call is not made if the
// configuration now forbids it.
func TestUndoChecksPermissionAgain(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("raw", "raw")))
	c, g := dial(t, h), newGate(t)
	c.pid("raw__")
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"eval_starlark","arguments":{"params":{"address":"` +
		g.Addr().String() + `"},"code":"undo(raw.text, text='x')\nundo(raw.pid)\nraw.gate(address=params.address)\nfail('no')"}}}`)
	g.accept(t)
	hideText(t, h)
	g.open(t)
	got := c.hear()
	if !strings.Contains(got, `"server":"raw","tool":"text","params":{"text":"x"},"undone":false,"error":{"type":"permission"`) ||
		!strings.Contains(got, `may not be called (the configuration hides it)`) {
		t.Errorf("the hidden tool: %s", got)
	}
	if !strings.Contains(got, `"server":"raw","tool":"pid","params":{},"undone":true`) {
		t.Errorf("the other tool: %s", got)
	}
}

// TestQueuedCallsCheckPermissionAgain checks that calls of a batch that are still
// queued are not made if the configuration now forbids them, and that no script can
// catch that error.
func TestQueuedCallsCheckPermissionAgain(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, upstreamOf("raw", "raw"))
	cfg.Execution.MaxParallel = 1
	h, _ := startHost(t, cfg)
	c, g := dial(t, h), newGate(t)
	c.pid("raw__")
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"eval_starlark","arguments":{"params":{"address":"` +
		g.Addr().String() + `"},"code":"return parallel([lambda: raw.gate(address=params.address), lambda: raw.text(text='x')], errors='collect')"}}}`)
	g.accept(t)
	hideText(t, h)
	g.open(t)
	got := c.hear()
	if kind, _ := wire.GetString([]byte(got), "result", "structuredContent", "error", "type"); kind != "permission" {
		t.Errorf("%s", got)
	}
}
