package host

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestSessionsAreIsolated checks sessions that use one upstream at the same time, with
// the same ids and tokens: each gets all its own messages, and no others.
func TestSessionsAreIsolated(t *testing.T) {
	t.Parallel()
	const sessions, rounds = 8, 3
	for _, upstream := range []config.Transport{config.Stdio, config.StreamableHTTP, config.LegacySSE} {
		t.Run(string(upstream), func(t *testing.T) {
			w := startProxy(t, combination{config.StreamableHTTP, upstream}, mcptest.ServerOptions{})
			pairs := make([]*mcptest.Pair, sessions)
			for i := range pairs {
				pairs[i] = pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), w.received)
			}
			var all sync.WaitGroup
			for i, p := range pairs {
				all.Go(func() {
					for range rounds {
						oneOfMany(t, p, i)
					}
				})
			}
			all.Wait()
			for i, p := range pairs {
				checkOwn(t, p, i, rounds, upstream)
			}
		})
	}
}

// oneOfMany makes the calls of session i.
func oneOfMany(t *testing.T, p *mcptest.Pair, i int) {
	message := fmt.Sprintf(`{"method":"notifications/message","params":{"level":"info","data":"session %d"}}`, i)
	calls := map[string]string{
		`1`:   mcptest.ToolParams("count", fmt.Sprintf(`{"times":%d}`, 100+i), `1`),
		`"1"`: mcptest.ToolParams("eval_starlark", fmt.Sprintf(`{"code":"return raw.instead({'text': 'session %d'})"}`, i), ""),
		`2`:   mcptest.ToolParams("instead", fmt.Sprintf(`{"text":"session %d"}`, i), `"1"`),
		`3`:   mcptest.ToolParams("notify", message, ""),
	}
	answers := map[string]<-chan mcptest.Answer{}
	for id, params := range calls {
		answers[id] = p.Client.Start(id, "tools/call", params)
	}
	for id, answer := range answers {
		select {
		case a := <-answer:
			if own := fmt.Sprintf(`session %d"`, i); a.Err != nil || id != `3` && id != `1` && !strings.Contains(string(a.Msg.Result), own) {
				t.Errorf("session %d, id %s: %s %v", i, id, a.Raw, a.Err)
			}
			if id == `1` && !strings.Contains(string(a.Raw), fmt.Sprintf(`"counted":%d`, 100+i)) {
				t.Errorf("session %d: %s", i, a.Raw)
			}
		case <-bounded(t).Done():
			t.Errorf("session %d, id %s: no answer", i, id)
		}
	}
}

// checkOwn checks what session i received in all rounds.
func checkOwn(t *testing.T, p *mcptest.Pair, i, rounds int, upstream config.Transport) {
	progress, messages := 0, 0
	for _, e := range p.Client.Log.All() {
		switch e.Msg.Method {
		case "notifications/progress":
			progress++
			if total, _ := wire.Get(e.Msg.Params, "total"); string(total) != fmt.Sprint(100+i) || !mcptest.ProgressWith(`1`)(e) {
				t.Errorf("session %d: %s", i, e.Raw)
			}
		case "notifications/message":
			messages++
			if data, _ := wire.GetString(e.Msg.Params, "data"); data != fmt.Sprintf("session %d", i) {
				t.Errorf("session %d: %s", i, e.Raw)
			}
		}
	}
	if progress != rounds*(100+i) {
		t.Errorf("session %d: %d progress notifications", i, progress)
	}
	// Only streamable HTTP shows to which call a message belongs.
	if upstream == config.StreamableHTTP && messages != rounds {
		t.Errorf("session %d: %d log messages", i, messages)
	}
}

// TestSharedUpstreamAsks checks an upstream's request to a client while two sessions
// have calls in flight. Over streamable HTTP the right client gets it. Where that
// cannot be known, the upstream gets an error that says so and what to configure.
func TestSharedUpstreamAsks(t *testing.T) {
	t.Parallel()
	for _, upstream := range []config.Transport{config.Stdio, config.StreamableHTTP, config.LegacySSE} {
		t.Run(string(upstream), func(t *testing.T) {
			w := startProxy(t, combination{config.StreamableHTTP, upstream}, mcptest.ServerOptions{})
			one := pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), w.received)
			two := pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), w.received)
			ctx := bounded(t)
			two.Client.Start("1", "tools/call", mcptest.ToolParams("wait", "{}", "1"))
			if _, _, err := two.Client.Log.Find(ctx, "progress", 0, mcptest.ProgressWith("1")); err != nil {
				t.Fatal(err)
			}
			e, err := one.Client.Request(ctx, "1", "tools/call", mcptest.ToolParams("ask", `{"method":"roots/list"}`, ""))
			if err != nil {
				t.Fatal(err)
			}
			want := `isolation`
			if upstream == config.StreamableHTTP {
				want = `"file:///a%20b"`
			}
			if !strings.Contains(string(e.Msg.Result), want) {
				t.Errorf("%s", e.Raw)
			}
			for _, e := range two.Client.Log.All() {
				if e.Msg.IsRequest() {
					t.Errorf("the wrong session was asked: %s", e.Raw)
				}
			}
			if err := two.Client.Notify("notifications/cancelled", `{"requestId":1}`); err != nil {
				t.Fatal(err)
			}
		})
	}
}
