package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// vaultComplaint is what the command for a secret writes to standard error in
// TestUnreadableSecret. It can quote anything, such as another secret.
const vaultComplaint = "the vault of hunter2 is locked"

// TestUnreadableSecret checks that clients get to know which secret of a server cannot be
// fetched, but not what its command wrote, wherever they ask. The log has that.
func TestUnreadableSecret(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	vault := config.Reference{Kind: config.FromCommand, Text: shellquote.Join(here, complainArgument), Path: t.TempDir()}
	locked := upstreamOf("locked", "raw")
	locked.Restart = config.RestartNever
	locked.Env["TOKEN"] = vault.String()
	locked.References = []config.PlacedReference{{Reference: vault, Setting: config.Setting{Key: "env", Name: "TOKEN"}, To: len(vault.String())}}
	h, log := startHostFor(t, testConfig(t, locked), OneClient)
	if _, err := h.Snapshot(bounded(t), "locked"); err == nil {
		t.Fatal("it has started")
	}
	c := dial(t, h)
	const why = "the secret in env.TOKEN cannot be read"
	for what, got := range map[string]string{
		"call":      c.call("locked__text", `{"text":"x"}`),
		"health":    c.call("health_check", `{}`),
		"probe":     c.call("health_check", `{"server":"locked"}`),
		"search":    c.call("search_tools", `{"query":"text"}`),
		"describe":  c.call("describe_tool", `{"name":"locked.text"}`),
		"prompt":    c.request("1", "prompts/get", `{"name":"locked__x"}`),
		"script":    c.call("eval_starlark", `{"code":"return locked.text(text='x')"}`),
		"caught":    c.call("eval_starlark", `{"code":"try:\n    locked.text(text='x')\nexcept ToolError as e:\n    return str(e)"}`),
		"saved":     c.call("save_tool", `{"name":"uses_locked","description":"d","inputSchema":{"type":"object"},"code":"return locked.text(text='x')"}`),
		"saved run": c.call("uses_locked", `{}`),
		"runs":      c.call("list_runs", `{}`),
	} {
		if strings.Contains(got, "hunter2") || strings.Contains(got, here) {
			t.Errorf("%s: clients see what the command wrote, or what it is: %s", what, got)
		}
		if what != "runs" && !strings.Contains(got, why) {
			t.Errorf("%s does not say why: %s", what, got)
		}
	}
	h.router.HandshakeWait = time.Millisecond
	w, err := h.router.BeginSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.router.EndSession(nil)
	if strings.Contains(w.Instructions, "hunter2") || !strings.Contains(w.Instructions, why) {
		t.Errorf("instructions: %s", w.Instructions)
	}
	if !strings.Contains(log.String(), fmt.Sprintf("it wrote to stderr: %s", vaultComplaint)) {
		t.Errorf("the log does not say why")
	}
}
