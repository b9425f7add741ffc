package route

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestErrorsInFourCells checks which error a client of either era gets when an upstream of either
// era answers with an error. Errors about the connection of a hop, or of a single era, must not
// reach a peer that would misunderstand them.
func TestErrorsInFourCells(t *testing.T) {
	const same = "same"
	const needs = "tools/call: the server needs something of the client that this client does not offer: {\"roots\":{}}"
	internal := `"code":-32603,"message":"m"`
	refused := `{"code":-32603,"message":"METHOD: the server refused our request: m"}`
	visit := `{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x","message":"go"}]}}`
	asked := `{"elicitation":{"url":{}}}`
	for _, test := range []struct {
		method, reply                                    string
		legacyFromLegacy, modernFromLegacy               string // client from upstream
		legacyFromModern, modernFromModern, capabilities string
	}{
		{"tools/call", `{"code":-32020,"message":"m","data":{"x":1.0}}`, same, "{" + internal + `,"data":{"x":1.0}}`, refused, refused, `{}`},
		{"prompts/get", `{"code":-32022,"message":"m","data":{"supported":[]}}`, same, "{" + internal + `,"data":{"supported":[]}}`, refused, refused, `{}`},
		{"tools/call", `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}`, same,
			"{" + internal + `,"data":{"requiredCapabilities":{"roots":{}}}}`,
			`{"content":[{"type":"text","text":"` + strings.ReplaceAll(strings.TrimPrefix(needs, "tools/call: "), `"`, `\"`) + `"}],"isError":true}`, same, `{}`},
		{"resources/read", `{"code":-32002,"message":"m","data":{"uri":"u:1"}}`, same, `{"code":-32602,"message":"m","data":{"uri":"u:1"}}`,
			same, `{"code":-32602,"message":"m","data":{"uri":"u:1"}}`, `{}`},
		{"resources/read", `{"code":-32602,"message":"m","data":{"uri":"u:1"}}`, same, same, same, same, `{}`},
		{"tools/call", `{"code":-32601,"message":"m"}`, same, same, same, same, `{}`},
		{"prompts/get", `{"code":-32601,"message":"m"}`, same, same, same, same, `{}`},
		{"tools/call", `{"code":-32000,"message":"m","data":[1.0]}`, same, same, same, same, `{}`},
		{"tools/call", `{"code":5,"message":"m","data":null,"more":1.0}`, same, same, same, same, `{}`},
		{"tools/call", visit, same, `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}`,
			same, `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}`, `{}`},
		{"prompts/get", visit, same, "asks", same, "asks", asked},
	} {
		for _, cell := range []struct {
			client   string
			upstream bool // of the stateless era
			want     string
		}{
			{"2025-11-25", false, test.legacyFromLegacy}, {stateless, false, test.modernFromLegacy},
			{"2025-11-25", true, test.legacyFromModern}, {stateless, true, test.modernFromModern},
		} {
			g, up, s := eras(t, cell.client, test.capabilities)
			up.answer[test.method] = func(context.Context, wire.Call) (wire.Reply, error) {
				r := reply(test.reply)
				r.Stateless = cell.upstream
				return r, nil
			}
			got := g.ask(s, test.method, "{"+requests[test.method]+"}")
			want := strings.ReplaceAll(cell.want, "METHOD", test.method)
			switch want {
			case same:
				want = test.reply
			case "asks":
				if kind, _ := wire.GetString([]byte(got), "resultType"); kind == "input_required" && !strings.Contains(got, "-32042") {
					continue
				}
			}
			if got != want {
				t.Errorf("%s to a client of %s, stateless upstream %v:\n%s\ngot  %s\nwant %s", test.method, cell.client, cell.upstream, test.reply, got, want)
			}
		}
	}
}

// TestStrayMembers checks that a client of the stateless era does not mistake members from an
// upstream of the handshake era for members of the stateless era.
func TestStrayMembers(t *testing.T) {
	const stray = `{"a":1.0,"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},"requestState":"s","ttlMs":60000,` +
		`"cacheScope":"public","b":{"resultType":"task", "ttlMs":1e2},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"k":9007199254740993}}`
	for method, params := range requests {
		g, up, s := eras(t, stateless, `{"roots":{}}`)
		up.on(method, stray)
		if got := g.ask(s, method, "{"+params+"}"); got != `{"a":1.0,"b":{"resultType":"task", "ttlMs":1e2},"_meta":{"k":9007199254740993}}` {
			t.Errorf("%s: %s", method, got)
		}
		up.on(method, `{"resultType":"task","taskId":"x","content":[]}`)
		if got := g.ask(s, method, "{"+params+"}"); got != `{"taskId":"x","content":[]}` {
			t.Errorf("%s: %s", method, got)
		}
	}
}
