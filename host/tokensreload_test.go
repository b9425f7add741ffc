package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// tokenClient is a session of a client with a token.
type tokenClient struct {
	*testing.T
	*mcptest.Client
	last int
}

func (w *testProxy) join(t *testing.T, token string) *tokenClient {
	t.Helper()
	p := pair(t, w.dial(t, mcptest.ClientOptions{Header: map[string]string{"Authorization": "Bearer " + token}}), w.received)
	return &tokenClient{T: t, Client: p.Client}
}

func (c *tokenClient) ask(method, params string) string {
	c.T.Helper()
	c.last++
	e, err := c.Request(bounded(c.T), fmt.Sprint(c.last), method, params)
	if err != nil {
		c.Fatal(err)
	}
	return string(e.Raw)
}

// told waits until the client has got notifications of the methods since it had seen a
// number of messages.
func (c *tokenClient) told(seen int, methods ...string) {
	c.T.Helper()
	for _, method := range methods {
		if _, _, err := c.Log.Find(bounded(c.T), method, seen, mcptest.Method(method)); err != nil {
			c.Fatal(err)
		}
	}
}

// untold checks that a client has not got a notification since then. What it is asked
// after others have got theirs is answered after its own would have come.
func (c *tokenClient) untold(seen int, method string) {
	c.T.Helper()
	c.ask("ping", "")
	if slices.ContainsFunc(c.Log.All()[seen:], mcptest.Method(method)) {
		c.Errorf("the client got %s", method)
	}
}

// TestRightsChange checks that sessions follow a change of the rights of their tokens, and
// that a client hears nothing of a server that its token hides.
func TestRightsChange(t *testing.T) {
	t.Parallel() // it mostly waits
	server := mcptest.NewServer(mcptest.ServerOptions{})
	up := config.Upstream{
		Name: "raw", URL: listenHTTP(t, server, server.HTTP()), Transport: config.StreamableHTTP, Timeout: maxWait, MaxTimeout: maxWait,
		Restart: config.RestartAlways, Isolation: config.Shared, Start: config.Eager,
	}
	cfg := testConfig(t, up)
	cfg.HTTP.Tokens = bearerTokens("token-of-a", "token-of-b")
	cfg.HTTP.Tokens[0].Name, cfg.HTTP.Tokens[1].Name = "a", "b"
	w := serveProxy(t, overHTTP, server.Received, cfg)
	a, b := w.join(t, "token-of-a"), w.join(t, "token-of-b")
	for _, c := range []*tokenClient{a, b} {
		for _, list := range []string{"tools/list", "resources/list", "prompts/list"} {
			if got := c.ask(list, "{}"); !strings.Contains(got, "result") {
				t.Fatal(got)
			}
		}
		if got := c.ask("resources/subscribe", `{"uri":"raw://text"}`); !strings.Contains(got, `"result":{`) {
			t.Fatal(got)
		}
	}
	waiting := b.Start(`"w"`, "tools/call", mcptest.ToolParams("wait", `{}`, ""))
	if _, _, err := server.Received.Find(bounded(t), "the call", 0, mcptest.CallOf("wait")); err != nil {
		t.Fatal(err)
	}

	rights := func(hide ...string) {
		changes := reload(t, w.host, func(cfg *config.Config) {
			cfg.HTTP.Tokens = slices.Clone(cfg.HTTP.Tokens)
			cfg.HTTP.Tokens[1].Rights.Hide = hide
		})
		if got := changes.Lines(); !slices.Equal(got, []string{"http.tokens: changed"}) {
			t.Errorf("changes: %q", got)
		}
	}
	all := []string{wire.Tools.ChangedMethod(), wire.Resources.ChangedMethod(), wire.Prompts.ChangedMethod()}
	seenA, seenB := a.Log.Len(), b.Log.Len()
	rights("raw.*")
	b.told(seenB, all...)
	a.untold(seenA, wire.Tools.ChangedMethod())
	for method, params := range map[string]string{
		"tools/call": mcptest.ToolParams("echo", `{}`, ""), "resources/read": `{"uri":"raw://text"}`, "prompts/get": `{"name":"greet"}`,
		"resources/subscribe":  `{"uri":"raw://text"}`,
		"completion/complete":  `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`,
		"experimental/unknown": `{}`,
	} {
		if got := b.ask(method, params); !strings.Contains(got, `"error"`) {
			t.Errorf("%s of what is hidden: %s", method, got)
		}
		if got := a.ask(method, params); method != "experimental/unknown" && !strings.Contains(got, `"result"`) {
			t.Errorf("%s with the other token: %s", method, got)
		}
	}
	if got := b.ask("tools/list", "{}"); strings.Contains(got, `"echo"`) || !strings.Contains(got, `"eval_starlark"`) {
		t.Errorf("tools: %.500s", got)
	}

	// Changes, updates and logs of the server.
	seenA, seenB = a.Log.Len(), b.Log.Len()
	server.Replace(wire.Tools, `{"name":"new","inputSchema":{"type":"object"}}`, `{"name":"touch","inputSchema":{"type":"object"}}`)
	a.told(seenA, wire.Tools.ChangedMethod())
	a.ask("tools/call", mcptest.ToolParams("touch", `{"uri":"raw://text"}`, ""))
	a.told(seenA, protocol.NotificationResourceUpdated)
	b.untold(seenB, wire.Tools.ChangedMethod())
	b.untold(seenB, protocol.NotificationResourceUpdated)

	// A call that was sent before goes on.
	select {
	case answer := <-waiting:
		t.Errorf("the call in flight ends: %s %v", answer.Raw, answer.Err)
	default:
	}
	seenB = b.Log.Len()
	rights("raw.touch")
	b.told(seenB, all...)
	if got := b.ask("tools/list", "{}"); !strings.Contains(got, `"new"`) || strings.Contains(got, `"touch"`) {
		t.Errorf("tools: %.500s", got)
	}
	rights()
	if got := b.ask("tools/list", "{}"); !strings.Contains(got, `"touch"`) {
		t.Errorf("tools: %.500s", got)
	}
	if err := b.Notify("notifications/cancelled", `{"requestId":"w"}`); err != nil {
		t.Fatal(err)
	}
}

// TestOwnTools checks that clients whose token has its own saved tools keep the tools, whatever else
// is reloaded, and that no other client sees the tools.
func TestOwnTools(t *testing.T) {
	t.Parallel() // it mostly waits
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{})
	cfg := testConfig(t, up.config)
	cfg.HTTP.Tokens = bearerTokens("token-of-a", "token-of-b", "token-of-c")
	for i, name := range []string{"a", "b", "c"} {
		cfg.HTTP.Tokens[i].Name, cfg.HTTP.Tokens[i].Rights.Own = name, name
	}
	cfg.HTTP.Tokens[0].Rights.Own = "" // no other token shares these tools here
	w := serveProxy(t, overHTTP, up.received, cfg)
	clients := map[string]*tokenClient{"a": w.join(t, "token-of-a"), "b": w.join(t, "token-of-b"), "c": w.join(t, "token-of-c")}
	tool := func(who, name, arguments string) string {
		t.Helper()
		return clients[who].ask("tools/call", mcptest.ToolParams(name, arguments, ""))
	}
	save := func(who, name string) {
		t.Helper()
		if got := tool(who, "save_tool", fmt.Sprintf(`{"name":%q,"description":"d","inputSchema":{"type":"object"},"code":"return '%s of %s'"}`, name, name, who)); !strings.Contains(got, "status") {
			t.Fatal(got)
		}
	}
	check := func() {
		t.Helper()
		for who := range clients {
			if got := tool(who, "same", "{}"); !strings.Contains(got, "of "+who) {
				t.Errorf("%s calls same: %s", who, got)
			}
			if got := tool(who, "eval_starlark", `{"code":"return tools.same()"}`); !strings.Contains(got, "of "+who) {
				t.Errorf("a script of %s calls same: %s", who, got)
			}
			for other := range clients {
				list := clients[who].ask("tools/list", "{}")
				saved := tool(who, "list_saved_tools", "{}")
				call := tool(who, "only_"+other, "{}")
				show := tool(who, "show_saved_tool", fmt.Sprintf(`{"name":"only_%s"}`, other))
				for what, got := range map[string]string{"list": list, "list_saved_tools": saved, "call": call, "show": show} {
					mine := strings.Contains(got, "only_"+other) && !strings.Contains(got, `unknown tool`) && !strings.Contains(got, "no saved tool")
					if mine != (who == other) {
						t.Errorf("%s of %s for the tool of %s: %.300s", what, who, other, got)
					}
				}
			}
		}
	}
	for who := range clients {
		save(who, "same")
		save(who, "only_"+who)
	}
	check()
	reload(t, w.host, func(cfg *config.Config) { cfg.Execution.Timeout *= 2 })
	check()
	// A token that no longer has its own tools sees the shared ones, and gets its own back.
	own := func(name string) {
		reload(t, w.host, func(cfg *config.Config) {
			cfg.HTTP.Tokens = slices.Clone(cfg.HTTP.Tokens)
			cfg.HTTP.Tokens[1].Rights.Own = name
		})
	}
	own("")
	if got := tool("b", "same", "{}"); !strings.Contains(got, "of a") {
		t.Errorf("with shared tools: %s", got)
	}
	own("b")
	check()
}
