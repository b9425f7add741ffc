package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestHiddenNames asks for everything with a token that hides a tool, a prompt, a resource, a
// saved tool and a whole server. No answer names them.
func TestHiddenNames(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newShop(t, []byte(`
[upstream.store]
url = "${STORE}"
probe = { call = "erase" }
[upstream.vault]
url = "${STORE}"
[http]
listen = "127.0.0.1:0"
tokens = [
	{ name = "owner", token = "token-of-owner" },
	{ name = "reader", token = "token-of-reader", hide = ["store.er*", "store.betray", "store.store://secret*", "vault.*", "tools.laund*"] },
]`))
	owner, reader := s.join(t, "token-of-owner"), s.join(t, "token-of-reader")
	hidden := []string{"erase", "Erase", "betray", "store://secret", "vault", "launder"}
	clean := func(what, answer string) {
		t.Helper()
		for _, word := range hidden {
			if at := strings.Index(answer, word); at >= 0 {
				t.Errorf("%s: the answer has %q: ...%s", what, word, answer[max(0, at-200):min(len(answer), at+200)])
			}
		}
	}
	// The owner's view has them, so that the test can fail. Its saved tools are for all.
	for _, list := range []string{"tools/list", "prompts/list", "resources/list"} {
		if got := owner.ask(list, "{}"); !strings.Contains(got, "vault") && !strings.Contains(got, "store://secret") {
			t.Fatalf("%s: %.500s", list, got)
		}
	}
	for _, save := range [][2]string{
		{"launder", "return store[params.n]({})"}, {"open", "return store[params.n]({})"}, {"outer", "return tools[params.n]({})"},
	} {
		name, code := save[0], save[1]
		saved := owner.ask("tools/call", mcptest.ToolParams("save_tool", fmt.Sprintf(
			`{"name":%q,"description":"d","inputSchema":{"type":"object","properties":{"n":{"type":"string"}}},"code":%q}`, name, code), ""))
		if !strings.Contains(saved, `"created"`) {
			t.Fatal(saved)
		}
	}
	if shown := owner.ask("tools/call", mcptest.ToolParams("show_saved_tool", `{"name":"outer"}`, "")); !strings.Contains(shown, "store.erase") || !strings.Contains(shown, "tools.launder") {
		t.Errorf("the owner sees %s", shown)
	}

	for _, list := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		clean(list, reader.ask(list, "{}"))
	}
	tool := func(name, arguments string) string {
		t.Helper()
		return reader.ask("tools/call", mcptest.ToolParams(name, arguments, ""))
	}
	for _, c := range [][2]string{
		{"list_saved_tools", `{}`}, {"show_saved_tool", `{"name":"open"}`}, {"show_saved_tool", `{"name":"outer"}`}, {"show_saved_tool", `{"name":"lauder"}`},
		{"save_tool", `{"name":"mine","description":"d","inputSchema":{"type":"object"},"code":"return tools.outer({})"}`},
		{"save_tool", `{"name":"wrong","description":"d","inputSchema":{"type":"object"},"code":"return tools.outer({})","permissions":["other.x"]}`},
		{"show_saved_tool", `{"name":"mine"}`}, {"mine", `{}`}, {"open", `{"n":"arase"}`}, {"open", `{"n":"read"}`}, {"lauder", `{}`}, {"store__arase", `{}`},
		{"search_tools", `{}`}, {"search_tools", `{"query":"everything"}`}, {"search_tools", `{"server":"valt"}`},
		{"describe_tool", `{"name":"store.arase"}`}, {"describe_tool", `{"name":"arase"}`}, {"describe_tool", `{"name":"valt.read"}`}, {"describe_tool", `{"name":"read"}`},
		{"eval_starlark", `{"code":"return store.arase()"}`}, {"eval_starlark", `{"code":"return valt.read()"}`}, {"eval_starlark", `{"code":"return tools.lauder()"}`},
		{"eval_starlark", `{"code":"return store"}`}, {"eval_starlark", `{"code":"return tools"}`}, {"eval_starlark", `{"code":"return dir(store) + dir(tools)"}`},
		{"test_tool", `{"code":"return store.arase()","mocks":[{"tool":"store.read","text":"x"}]}`}, {"test_tool", `{"name":"outer","params":{"n":"open"}}`},
		{"plan_tool", `{"name":"open","params":{"n":"write"}}`}, {"plan_tool", `{"name":"outer","params":{"n":"lauder"}}`},
		{"list_runs", `{}`}, {"show_run", `{}`}, {"health_check", `{}`}, {"health_check", `{"server":"store"}`}, {"health_check", `{"server":"valt"}`},
	} {
		clean(c[0]+" "+c[1], tool(c[0], c[1]))
	}
	for method, params := range map[string]string{
		"prompts/get": `{"name":"store__betra"}`, "resources/read": `{"uri":"store://secre"}`, "resources/subscribe": `{"uri":"store://secre"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"store__betra"},"argument":{"name":"who","value":""}}`,
	} {
		clean(method, reader.ask(method, params))
	}

	// Guessing tells a client nothing: a hidden item is refused like an unknown item.
	for _, c := range []struct{ method, params, there, not string }{
		{"tools/call", mcptest.ToolParams("eval_starlark", `{"code":"return store.%s()"}`, ""), "erase", "erode"},
		{"tools/call", mcptest.ToolParams("eval_starlark", `{"code":"return vault.%s()"}`, ""), "read", "reap"},
		{"tools/call", mcptest.ToolParams("eval_starlark", `{"code":"return tools.%s()"}`, ""), "launder", "laundry"},
		{"tools/call", mcptest.ToolParams("open", `{"n":"%s"}`, ""), "erase", "erode"},
		{"tools/call", mcptest.ToolParams("test_tool", `{"code":"return store.%s()","mocks":[]}`, ""), "erase", "erode"},
		{"tools/call", mcptest.ToolParams("describe_tool", `{"name":"store.%s"}`, ""), "erase", "erode"},
		{"tools/call", mcptest.ToolParams("show_saved_tool", `{"name":"%s"}`, ""), "launder", "laundry"},
		{"tools/call", mcptest.ToolParams("show_saved_tool", `{"name":"%s"}`, ""), "store__erase", "store__erode"},
		{"tools/call", mcptest.ToolParams("delete_saved_tool", `{"name":"%s"}`, ""), "launder", "laundry"},
		{"tools/call", mcptest.ToolParams("health_check", `{"server":"%s"}`, ""), "vault", "fault"},
		{"prompts/get", `{"name":"%s"}`, "store__betray", "store__betrayed"},
		{"resources/read", `{"uri":"%s"}`, "store://secret", "store://secrets"},
		{"resources/subscribe", `{"uri":"%s"}`, "store://secret", "store://secrets"},
	} {
		refusal := func(name string) string {
			answer := []byte(reader.ask(c.method, strings.ReplaceAll(c.params, "%s", name)))
			raw, ok := wire.Get(answer, "error")
			if !ok {
				raw, ok = wire.Get(answer, "result", "structuredContent", "error")
			}
			if !ok {
				t.Errorf("%s %s of %s: no error in %s", c.method, c.params, name, answer)
			}
			message, _ := wire.GetString(raw, "message") // the rest depends on the name
			return strings.ReplaceAll(message, name, "NAME")
		}
		if there, not := refusal(c.there), refusal(c.not); there != not {
			t.Errorf("%s %s:\n%s is refused with %s\n%s with %s", c.method, c.params, c.there, there, c.not, not)
		}
	}
}
