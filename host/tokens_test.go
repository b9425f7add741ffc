package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestTokenMayNotSave checks two clients with different tokens, one of which may not
// save tools; then a reload swaps their rights.
func TestTokenMayNotSave(t *testing.T) {
	t.Parallel()
	const saver, reader = "token-of-saver", "token-of-reader"
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{})
	cfg := testConfig(t, up.config)
	cfg.HTTP.Tokens = bearerTokens(saver, reader)
	cfg.HTTP.Tokens[1].Rights.NoSave = true
	w := serveProxy(t, combination{config.StreamableHTTP, config.Stdio}, up.received, cfg)
	ctx := bounded(t)
	join := func(token string) *mcptest.Pair {
		return pair(t, w.dial(t, mcptest.ClientOptions{Header: map[string]string{"Authorization": "Bearer " + token}}), w.received)
	}
	last := 0
	call := func(p *mcptest.Pair, method, params string) string {
		last++
		e, err := p.Client.Request(ctx, fmt.Sprint(last), method, params)
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Raw)
	}
	tool := func(p *mcptest.Pair, name, arguments string) string {
		return call(p, "tools/call", mcptest.ToolParams(name, arguments, ""))
	}
	save := func(p *mcptest.Pair, code string) string {
		return tool(p, "save_tool", fmt.Sprintf(`{"name":"mine","description":"d","inputSchema":{"type":"object"},"code":%q}`, code))
	}
	listed := func(p *mcptest.Pair) (names []string) {
		raw, _ := wire.Get([]byte(call(p, "tools/list", `{}`)), "result", "tools")
		items, err := wire.Elements(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			name, _ := wire.GetString(item, "name")
			names = append(names, name)
		}
		return names
	}
	check := func(may, mayNot *mcptest.Pair) {
		t.Helper()
		if got := save(may, "return 1"); !strings.Contains(got, `"status"`) {
			t.Errorf("who may save: %s", got)
		}
		for _, got := range []string{save(mayNot, "return 2"), tool(mayNot, "delete_saved_tool", `{"name":"mine"}`), tool(mayNot, "describe_tool", `{"name":"save_tool"}`)} {
			if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, `"permission"`) {
				t.Errorf("who may not save: %s", got)
			}
		}
		if got := tool(mayNot, "mine", `{}`); !strings.Contains(got, `"result":1`) {
			t.Errorf("who may not save calls: %s", got)
		}
		all, some := listed(may), listed(mayNot)
		if rest := slices.DeleteFunc(all, func(name string) bool { return name == "save_tool" || name == "delete_saved_tool" }); !slices.Equal(some, rest) {
			t.Errorf("who may not save sees %q\nwho may sees beside two %q", some, rest)
		}
	}
	a, b := join(saver), join(reader)
	if text, _ := wire.GetString(b.InitializeResponse.Msg.Result, "instructions"); strings.Contains(text, "4. save_tool keeps") || !strings.Contains(text, "4. ") {
		t.Errorf("instructions: %.800s", text)
	}
	check(a, b)
	seen := len(b.Client.Log.All())
	changes := reload(t, w.host, func(cfg *config.Config) {
		cfg.HTTP.Tokens = bearerTokens(saver, reader)
		cfg.HTTP.Tokens[0].Rights.NoSave = true
	})
	if got := changes.Lines(); !slices.Equal(got, []string{"http.tokens: changed"}) {
		t.Errorf("changes: %q", got)
	}
	if _, _, err := b.Client.Log.Find(ctx, "list_changed", seen, mcptest.Method(wire.Tools.ChangedMethod())); err != nil {
		t.Error(err)
	}
	check(b, a)
}

// bearerTokens returns tokens that may do everything.
func bearerTokens(tokens ...string) (all []bearer.Token) {
	for _, token := range tokens {
		all = append(all, bearer.Token{Digest: bearer.DigestOf(token)})
	}
	return all
}
