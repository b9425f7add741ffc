package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// TestDefaultLimits checks that the documented defaults of the configuration are those
// of the sandbox.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cfg, err := config.Load(config.LoadOptions{
		Getenv: func(string) (string, bool) { return "", false }, Home: func() (string, error) { return home, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := sandbox.Limits{
		Memory: sandbox.DefaultMemory, Fuel: sandbox.DefaultFuel, Calls: sandbox.DefaultCalls, Arguments: sandbox.DefaultArguments,
		Answer: sandbox.DefaultAnswer, Result: sandbox.DefaultResult, Logs: sandbox.DefaultLogs,
	}
	if got := RunLimits(cfg.Execution); got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
	e := cfg.Execution
	if e.Timeout != compose.DefaultTimeout || e.MaxQueued != sandbox.DefaultMaxQueued || e.MaxConcurrent != 0 {
		t.Errorf("%+v", e)
	}
}

// TestLimitsEndToEnd runs scripts into the limits of the configuration and of the saved
// tool.
func TestLimitsEndToEnd(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, upstreamOf("raw", "raw"))
	cfg.Execution.MaxFuel = 200_000_000
	h, _ := startHost(t, cfg)
	c := dial(t, h)
	c.call("raw__text", `{"text":"warm"}`) // the upstream is up
	failed := func(tool, arguments string) []byte {
		t.Helper()
		e, ok := wire.Get([]byte(c.call(tool, arguments)), "structuredContent", "error")
		if !ok {
			t.Fatalf("%s %s did not fail", tool, arguments)
		}
		return e
	}
	e := failed("eval_starlark", `{"code":"while True: pass"}`)
	for path, want := range map[string]string{"limit": `"fuel"`, "value": "200000000", "used": "200000000", "setting": `"execution.max_fuel"`} {
		if got, _ := wire.Get(e, "details", path); string(got) != want {
			t.Errorf("%s = %s, want %s: %s", path, got, want, e)
		}
	}
	save := `{"name":"own","description":"d","inputSchema":{"type":"object"},"limits":%s,"code":"while True: raw.text(text='x')"}`
	if e := failed("save_tool", fmt.Sprintf(save, `{"fuel":200000001}`)); !strings.Contains(string(e), "want at most 200000000 (execution.max_fuel)") {
		t.Errorf("saved above the ceiling: %s", e)
	}
	if got := c.call("save_tool", fmt.Sprintf(save, `{"calls":3}`)); !strings.Contains(got, `"created"`) {
		t.Fatalf("save_tool: %s", got)
	}
	e = failed("own", `{}`)
	for path, want := range map[string]string{"limit": `"calls"`, "value": "3", "used": "3", "setting": `"limits.calls"`} {
		if got, _ := wire.Get(e, "details", path); string(got) != want {
			t.Errorf("%s = %s, want %s: %s", path, got, want, e)
		}
	}
	receipt, _ := wire.Get([]byte(c.call("eval_starlark", `{"code":"return 1"}`)), "_meta", compose.ReceiptKey)
	if fuel, _ := wire.Get(receipt, "fuel"); len(fuel) < 4 {
		t.Errorf("receipt %s", receipt)
	}

	// The configuration was tightened after the tool had been saved.
	cfg.Execution.MaxCalls = 2
	h2, _ := startHost(t, cfg)
	c = dial(t, h2)
	c.call("raw__text", `{"text":"warm"}`)
	e = failed("own", `{}`)
	if value, _ := wire.Get(e, "details", "value"); string(value) != "2" || !strings.Contains(string(e), `"setting":"execution.max_calls"`) {
		t.Errorf("limits above the configuration: %s", e)
	}
}
