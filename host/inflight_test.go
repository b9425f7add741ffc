package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// TestMessagesInFlightAreBounded makes many large calls at once, from clients and from
// scripts, with a small budget. All are answered, and never is more held than the
// budget and one message. Where answers wait for a second, a script may end in their favour.
func TestMessagesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	// The scripts, with what is checked of their arguments, have room at the same time: otherwise one
	// of them has to end for the others.
	const calls, size, total = 12, 500_000, 48 << 20
	cfg := testConfig(t, upstreamOf("raw", "raw"))
	cfg.Execution.MaxTotalMemory = total
	cfg.Execution.ToolCalls = config.ToolCallsNone
	h, _ := startHost(t, cfg)
	c := dial(t, h)
	c.call("eval_starlark", `{"code":"return len(raw.text(text='warm'))"}`)
	text := strings.Repeat("x", size)
	said := make(chan struct{})
	go func() {
		defer close(said)
		for n := range calls {
			params := fmt.Sprintf(`{"name":"raw__text","arguments":{"text":"%s"}}`, text)
			if n%3 == 1 {
				params = fmt.Sprintf(`{"name":"eval_starlark","arguments":{"code":"return raw.text(text=params.text)","params":{"text":"%s"}}}`, text)
			}
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, 100+n, params))
		}
	}()
	for range calls {
		if got := c.hear(); !strings.Contains(got, text) && !strings.Contains(got, `"limit":"total_memory"`) {
			t.Errorf("%.300s", got)
		}
	}
	<-said
	f := h.sandbox.Budget().Figures()
	t.Logf("%+v", f)
	if f.Peak > total || f.Peak < 4*size || f.Runs != 0 || f.Waiting != 0 {
		t.Errorf("%+v", f)
	}
}
