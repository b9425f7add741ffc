package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/approval"
	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// policyOf reads a policy.
func policyOf(t *testing.T, text string) config.Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{Context: t.Context(), Flag: path})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Policy
}

const askText = `
[[policy.rule]]
name = "asked"
tools = ["tools.*", "raw.pid"]
action = "ask"
`

// TestChangesWhileACallWaits checks that a call which a person allows is not made if what the
// person was asked about has changed meanwhile, and that it is made if nothing has.
func TestChangesWhileACallWaits(t *testing.T) {
	t.Parallel() // it mostly waits
	const direct, saved = `{"name":"raw__pid","arguments":{}}`, `{"name":"asked","arguments":{}}`
	script := `{"name":"eval_starlark","arguments":{"code":"return tools.asked()"}}`
	save := func(t *testing.T, h *Host, code string) {
		def, err := h.shared.Get("asked")
		if err != nil {
			t.Fatal(err)
		}
		def.Code = code
		if _, _, err := h.shared.Save(def); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		call   string
		change func(t *testing.T, h *Host)
		want   string
	}{
		"nothing, direct":     {direct, func(*testing.T, *Host) {}, `"pid":`},
		"nothing, saved":      {saved, func(*testing.T, *Host) {}, `"result":1`},
		"nothing, script":     {script, func(*testing.T, *Host) {}, `"result":1`},
		"code":                {saved, func(t *testing.T, h *Host) { save(t, h, "return 2") }, `policy asks for the approval of tools.asked`},
		"code, for a script":  {script, func(t *testing.T, h *Host) { save(t, h, "return 2") }, `policy asks for the approval of tools.asked`},
		"tool deleted":        {saved, func(t *testing.T, h *Host) { _ = h.shared.Delete("asked") }, `policy asks for the approval of tools.asked`},
		"policy denies":       {direct, func(t *testing.T, h *Host) { repolicy(t, h, strings.Replace(askText, `"ask"`, `"deny"`, 1)) }, `policy denies raw.pid`},
		"policy denies saved": {saved, func(t *testing.T, h *Host) { repolicy(t, h, strings.Replace(askText, `"ask"`, `"deny"`, 1)) }, `policy denies tools.asked`},
		"another rule asks":   {direct, func(t *testing.T, h *Host) { repolicy(t, h, strings.Replace(askText, `"asked"`, `"other"`, 1)) }, `policy asks for the approval of raw.pid`},
		"hidden": {direct, func(t *testing.T, h *Host) {
			reload(t, h, func(cfg *config.Config) { cfg.Upstreams[0].Hide = []string{"pid"} })
		}, `may not be called`},
		"server removed":  {direct, func(t *testing.T, h *Host) { reload(t, h, func(cfg *config.Config) { cfg.Upstreams = nil }) }, `was replaced|may not be called`},
		"server replaced": {direct, func(t *testing.T, h *Host) { reload(t, h, func(cfg *config.Config) { another(&cfg.Upstreams[0]) }) }, `was replaced`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t, upstreamOf("raw", "raw"))
			cfg.Policy = policyOf(t, askText)
			cfg.Approval = config.Approval{By: config.ApprovalByQueue, Wait: config.ApprovalHold, Timeout: time.Minute, MaxWaiting: 9}
			h, _ := startHost(t, cfg)
			agent := dial(t, h)
			agent.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"save_tool","arguments":{"name":"asked","description":"d","inputSchema":{"type":"object"},"code":"return 1"}}}`)
			agent.hear()
			agent.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + c.call + `}`)
			id := nextWaiting(t, h.approvals)
			c.change(t, h)
			if _, err := h.approvals.Decide(t.Context(), id, approval.Verdict{Allow: true, By: "me"}, approval.HowQueue, 0); err != nil {
				t.Fatal(err)
			}
			got := agent.answerTo("2")
			if !containsAny(got, strings.Split(c.want, "|")) {
				t.Errorf("want %s: %s", c.want, got)
			}
		})
	}
}

func containsAny(text string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// repolicy changes the policy of a running Host.
func repolicy(t *testing.T, h *Host, text string) {
	reload(t, h, func(cfg *config.Config) { cfg.Policy = policyOf(t, text) })
}

// nextWaiting waits until a call waits in a queue, and returns its id.
func nextWaiting(t *testing.T, queue *approval.Queue) string {
	t.Helper()
	for end := time.Now().Add(maxWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		list, err := queue.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.State == approval.Open && e.Waits {
				return e.ID
			}
		}
	}
	t.Fatal("no call waits")
	return ""
}

// answerTo returns the response with an id, past other messages.
func (c *client) answerTo(id string) string {
	for {
		if got := c.hear(); strings.Contains(got, `"id":`+id) && !strings.Contains(got, `"method"`) {
			return got
		}
	}
}
