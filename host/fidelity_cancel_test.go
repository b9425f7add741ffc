package host

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// leavings are the ways in which a client cancels a call.
var leavings = []struct {
	name  string
	front config.Transport // "": any
	leave func(ctx context.Context, c *mcptest.Client, id string) error
	// told says that the client may still be told that the call has failed.
	told bool
}{
	{"notification", "", func(_ context.Context, c *mcptest.Client, id string) error {
		return c.Notify("notifications/cancelled", `{"requestId":`+id+`}`)
	}, false},
	{"end of input", config.Stdio, func(ctx context.Context, c *mcptest.Client, _ string) error { return c.Close(ctx) }, false},
	{"both pipes broken", config.Stdio, func(_ context.Context, c *mcptest.Client, _ string) error { c.Disconnect(); return nil }, false},
	{"connection of the request closed", config.StreamableHTTP, func(_ context.Context, c *mcptest.Client, id string) error { c.Drop(id); return nil }, false},
	{"session deleted", config.StreamableHTTP, func(ctx context.Context, c *mcptest.Client, _ string) error { return c.Close(ctx) }, true},
	{"all connections broken", config.StreamableHTTP, func(_ context.Context, c *mcptest.Client, _ string) error { c.Disconnect(); return nil }, false},
}

// TestClientCancels cancels a call in each way while the upstream works on it, for
// plain calls and for composites, with and without progress. The upstream gets a
// cancellation with its own id, and the client gets no result.
func TestClientCancels(t *testing.T) {
	t.Parallel()
	calls := []struct{ name, params string }{
		{"plain", mcptest.ToolParams("wait", "{}", "")},
		{"plain with progress", mcptest.ToolParams("wait", "{}", `"1"`)},
		{"composite", mcptest.ToolParams("eval_starlark", `{"code":"raw.wait()"}`, "")},
		{"composite with progress", mcptest.ToolParams("eval_starlark", `{"code":"raw.wait()"}`, `1`)},
	}
	for _, c := range combinations {
		w := startProxy(t, c, mcptest.ServerOptions{EarlyHeader: true}) // else each cancellation waits for it
		for _, leaving := range leavings {
			if leaving.front != "" && leaving.front != c.client {
				continue
			}
			for i, call := range calls {
				t.Run(fmt.Sprintf("%s/%s/%s", c, leaving.name, call.name), func(t *testing.T) {
					ctx, from := bounded(t), w.received.Len()
					id := fmt.Sprintf(`"leave-%d"`, i)
					p := pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: mcptest.AnswerRequest}), w.received)
					p.Client.Start(id, "tools/call", call.params)
					request, from, err := w.received.Find(ctx, "the call", from, mcptest.CallOf("wait"))
					if err != nil {
						t.Fatal(err)
					}
					if err := leaving.leave(ctx, p.Client, id); err != nil {
						t.Fatal(err)
					}
					if _, _, err := w.received.Find(ctx, "the cancellation", from, mcptest.CancelOf(request)); err != nil {
						t.Fatal(err)
					}
					for _, e := range p.Client.Log.All() {
						failed := strings.Contains(string(e.Raw), `"isError":true`)
						if mcptest.ResponseTo(id)(e) && !(leaving.told && failed) {
							t.Errorf("answered: %s", e.Raw)
						}
					}
				})
			}
		}
	}
}
