package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// canAsk are the requests in the middle of which a client can be asked: their params, a
// result, and what the stateless era adds to it.
var canAsk = []struct{ method, params, result, hints string }{
	{"tools/call", `"name":"t","arguments":{"n":1.0}`, `"content":[]`, ``},
	{"prompts/get", `"name":"p"`, `"messages":[]`, ``},
	{"resources/read", `"uri":"file:///a"`, `"contents":[]`, `,"ttlMs":0,"cacheScope":"private"`},
}

// asks are the questions of each kind: their params in the stateless era, and an answer. id
// is what the handshake era adds.
var asks = []struct{ name, method, params, id, answer string }{
	{"form", "elicitation/create", `{"message":"Name?","requestedSchema":{"type":"object"}}`, ``, `{"action":"accept","content":{"x":1e2}}`},
	{"url", "elicitation/create", `{"mode":"url","url":"https://x","message":"go"}`, `,"elicitationId":"$elicitation"`, `{"action":"accept"}`},
	{"sampling", "sampling/createMessage", `{"messages":[],"maxTokens":1}`, ``, `{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}`},
	{"roots", "roots/list", ``, ``, `{"roots":[{"uri":"file:///p","x":1}]}`},
}

// discovers are the lines with which each era of an upstream begins.
var discovers = map[string]string{
	"legacy": `u< {"jsonrpc":"2.0","id":$ia,"method":"initialize","params":$p}
u> {"jsonrpc":"2.0","id":$ia,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"s","version":"2"}}}
u< {"jsonrpc":"2.0","method":"notifications/initialized"}
`,
	"2026-07-28": `u< {"jsonrpc":"2.0","id":$ia,"method":"server/discover","params":$p}
u> {"jsonrpc":"2.0","id":$ia,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}},"ttlMs":0,"cacheScope":"private"}}
`,
}

// TestCells asks a client something of each kind in the middle of each request that
// allows it, for each pair of eras of the client and the upstream. All lines are compared
// as they are: what one era has and the other has not must not get through.
func TestCells(t *testing.T) {
	t.Parallel()
	for protocol, begin := range discovers {
		k := newTalk(t, "", protocol)
		k.play(`c> {"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}` + "\n" + begin)
		k.lists()
		k.play(`c< {"jsonrpc":"2.0","id":"i","result":$welcome}`)
		for i, request := range canAsk {
			for j, ask := range asks {
				for _, client := range []string{"legacy", "2026-07-28"} {
					k.names = map[string]string{"$env": clienttest.Envelope, "$name": ask.method, "$number": fmt.Sprint(1000 + 10*i + j)}
					lines := conversationOf(client, protocol, ask.params, ask.id, ask.answer)
					t.Run(fmt.Sprintf("%s client, %s server/%s/%s", client, protocol, request.method, ask.name), func(t *testing.T) {
						k.t = t
						k.play(strings.NewReplacer("METHOD", request.method, "PARAMS", request.params, "RESULT", request.result, "HINTS", request.hints).Replace(lines))
					})
					if k.t = t; t.Failed() {
						t.FailNow() // the rest of the conversation makes no sense
					}
				}
			}
		}
	}
}

// lists answers the lists that a new upstream is asked for, in any order.
func (k *talk) lists() {
	for range 4 {
		raw, err := k.upstream.in.Read()
		if err != nil {
			k.t.Fatal(err)
		}
		method, _ := wire.GetString(raw, "method")
		id, _ := wire.Get(raw, "id")
		items := map[string]string{
			"tools/list": `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`, "prompts/list": `"prompts":[{"name":"p"}]`,
			"resources/list": `"resources":[{"uri":"file:///a","name":"a"}]`, "resources/templates/list": `"resourceTemplates":[]`,
		}
		k.say(k.upstream.conn, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s,"resultType":"complete","ttlMs":0,"cacheScope":"private"}}`, id, items[method]))
	}
}

// conversationOf returns the lines of one conversation.
func conversationOf(client, upstream, params, id, answer string) string {
	question := `"method":"$name"`
	identified := question
	if params != "" {
		question += `,"params":` + params
		identified += `,"params":` + strings.TrimSuffix(params, "}") + id + "}"
	}
	var between, clientMeta, upMeta, second, end string
	if client != "legacy" {
		clientMeta = `,"_meta":$env`
	}
	if upstream != "legacy" {
		upMeta = `,"_meta":$env`
	}
	key := "$key"
	if upstream == "legacy" {
		between = `u> {"jsonrpc":"2.0","id":"q",` + strings.Replace(identified, "$elicitation", "e", 1) + "}\n"
		second = `u< {"jsonrpc":"2.0","id":"q","result":` + answer + "}\n" + `u> {"jsonrpc":"2.0","id":$ic,"result":{RESULT}}` + "\n"
	} else {
		key = "own"
		between = `u> {"jsonrpc":"2.0","id":$ic,"result":{"resultType":"input_required","inputRequests":{"own":{` + question + `}},"requestState":"of the server"}}` + "\n"
		second = `u< {"jsonrpc":"2.0","id":$id,"method":"METHOD","params":{PARAMS` + upMeta + `,"inputResponses":{"own":` + answer + `},"requestState":"of the server"}}` + "\n" +
			`u> {"jsonrpc":"2.0","id":$id,"result":{"resultType":"complete",RESULTHINTS,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}}` + "\n"
	}
	if client == "legacy" {
		if upstream == "legacy" {
			identified = strings.Replace(identified, "$elicitation", "e", 1)
		}
		between += `c< {"jsonrpc":"2.0","id":$ask,` + identified + "}\n" + `c> {"jsonrpc":"2.0","id":$ask,"result":` + answer + "}\n"
		if id != "" && upstream != "legacy" {
			end = `c< {"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"$elicitation"}}` + "\n"
		}
		end += `c< {"jsonrpc":"2.0","id":$number,"result":{RESULT}}` + "\n"
	} else {
		asked := `c< {"jsonrpc":"2.0","id":$number,"result":{"resultType":"input_required","inputRequests":{"` + key + `":{` + question + `}},"requestState":"$state"$rest}` + "\n"
		between += asked + `c> {"jsonrpc":"2.0","id":"again $number","method":"METHOD","params":{PARAMS,"inputResponses":{"` + key + `":` + answer + `},"requestState":"$state"` + clientMeta + "}}\n"
		result := `RESULT,"resultType":"complete"$last`
		if upstream != "legacy" {
			result = `"resultType":"complete",RESULTHINTS,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}`
		}
		end = `c< {"jsonrpc":"2.0","id":"again $number","result":{` + result + "}\n"
	}
	return `c> {"jsonrpc":"2.0","id":$number,"method":"METHOD","params":{PARAMS` + clientMeta + "}}\n" +
		`u< {"jsonrpc":"2.0","id":$ic,"method":"METHOD","params":{PARAMS` + upMeta + "}}\n" + between + second + end
}
