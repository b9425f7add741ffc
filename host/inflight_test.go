package host

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestMessagesInFlightAreBounded makes many large calls at once, from clients and from
// scripts, with a small budget. All are answered, and never is more held than the
// budget and one message. After answers have waited for a second, a script may end in their
// favour (budget.OpenAnswer); a call of a client never does.
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
	script := func(n int) bool { return n%3 == 1 }
	began, said := time.Now(), make(chan struct{})
	go func() {
		defer close(said)
		for n := range calls {
			params := fmt.Sprintf(`{"name":"raw__text","arguments":{"text":"%s"}}`, text)
			if script(n) {
				params = fmt.Sprintf(`{"name":"eval_starlark","arguments":{"code":"return raw.text(text=params.text)","params":{"text":"%s"}}}`, text)
			}
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, 100+n, params))
		}
	}()
	for range calls {
		got := c.hear()
		if strings.Contains(got, text) {
			continue
		}
		id, _ := wire.Get([]byte(got), "id")
		n, err := strconv.Atoi(string(id))
		ended := err == nil && script(n-100) && strings.Contains(got, `"limit":"total_memory"`)
		if after := time.Since(began); !ended || after < time.Second {
			t.Errorf("after %v: %.300s", after, got)
		}
	}
	<-said
	f := h.sandbox.Budget().Figures()
	t.Logf("%+v", f)
	if f.Peak > total || f.Peak < 4*size || f.Runs != 0 || f.Waiting != 0 {
		t.Errorf("%+v", f)
	}
}
