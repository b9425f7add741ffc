package route

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

const stateless = "2026-07-28"

// stateless makes an upstream answer a method as in the stateless era, with raw replies in turn;
// the last reply repeats.
func (u *fakeUpstream) stateless(method string, raw ...string) {
	u.answer[method] = func(context.Context, wire.Call) (wire.Reply, error) {
		r := reply(raw[0])
		if len(raw) > 1 {
			raw = raw[1:]
		}
		r.Stateless = true
		return r, nil
	}
}

// inputs returns the inputs of the calls since the last time, as "responses state".
func (u *fakeUpstream) inputs() (all []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.calls {
		all = append(all, string(c.Inputs.Responses)+" "+string(c.Inputs.State))
	}
	u.calls = nil
	return all
}

// eras makes a rig with an upstream and with a session of the given revision.
func eras(t *testing.T, revision, capabilities string) (*rig, *fakeUpstream, *fakeSession) {
	g := newRig(t, "a")
	g.lists("a", wire.Tools, "t")
	g.lists("a", wire.Prompts, "p")
	g.lists("a", wire.Resources, "u:1")
	s := g.session("one", capabilities)
	s.old = revision
	return g, g.ups["a"], s
}

// requests has a request for each method whose result can ask the client.
var requests = map[string]string{
	"tools/call":     `"name":"a__t","arguments":{"n":1}`,
	"prompts/get":    `"name":"a__p"`,
	"resources/read": `"uri":"u:1"`,
}

// TestRelay checks the form in which an upstream and a client of the stateless era get each other's
// questions and answers.
func TestRelay(t *testing.T) {
	for method, params := range requests {
		g, up, s := eras(t, stateless, `{"elicitation":{}}`)
		up.stateless(method, `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"}},"requestState":"s 1"}`,
			`{"resultType":"complete","x":1}`)
		envelope := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"traceparent":"t"}`
		first := g.ask(s, method, "{"+params+","+envelope+"}")
		state, _ := wire.GetString([]byte(first), "requestState")
		if !strings.Contains(first, `"inputRequests":{"k":{"method":"elicitation/create"}}`) || state == "" || strings.Contains(first, "s 1") {
			t.Errorf("%s: asked %s", method, first)
		}
		retry := "{" + params + `,"inputResponses":{"k":{"action":"accept"}},"requestState":` + string(wire.Quote(state)) + "}"
		if got := g.ask(s, method, retry); got != `{"resultType":"complete","x":1}` {
			t.Errorf("%s: retry: %s", method, got)
		}
		up.mu.Lock()
		for _, c := range up.calls {
			if strings.Contains(string(c.Params), "io.modelcontextprotocol/") || strings.Contains(string(c.Params), "requestState") || string(c.Client) != s.params {
				t.Errorf("%s: sent %s for %s", method, c.Params, c.Client)
			}
		}
		if trace, _ := wire.GetString(up.calls[0].Params, "_meta", "traceparent"); trace != "t" {
			t.Errorf("%s: sent %s", method, up.calls[0].Params)
		}
		up.mu.Unlock()
		want(t, method+": inputs", up.inputs(), " ", `{"k":{"action":"accept"}} "s 1"`)
		other := g.session("other", `{"elicitation":{}}`)
		other.old = stateless
		changed := "A" + state[1:8] + "A" + state[9:]
		if changed == state {
			changed = "A" + state[1:8] + "B" + state[9:]
		}
		for _, bad := range []struct {
			who    *fakeSession
			params string
		}{
			{other, retry}, {s, strings.Replace(retry, state, changed, 1)}, {s, strings.Replace(retry, `"inputResponses"`, `"more":1,"inputResponses"`, 1)},
			{s, "{" + params + `,"requestState":"s1"}`},
		} {
			if got := g.ask(bad.who, method, bad.params); got != `{"code":-32602,"message":"`+method+`: requestState is not valid for this request (begin again without it)"}` {
				t.Errorf("%s: %s: %s", method, bad.params, got)
			}
		}
		for _, params := range []string{params + `,"requestState":1`, params + `,"inputResponses":[]`} {
			if got := g.ask(s, method, "{"+params+"}"); !strings.Contains(got, "-32602") {
				t.Errorf("%s: %s: %s", method, params, got)
			}
		}
		want(t, method+": nothing of that reaches the upstream", up.inputs())
	}
}

// TestResultsForLegacyClients checks that a client of the handshake era gets no members of the
// stateless era only.
func TestResultsForLegacyClients(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"}}`
	for _, test := range []struct{ method, reply, want string }{
		{"tools/call", `{"resultType":"complete","content":[],"structuredContent":{"a":1},` + meta + `}`, `{"content":[],"structuredContent":{"a":1}}`},
		{"tools/call", `{"resultType":"complete","content":[{"type":"text","text":"1"}],"structuredContent":[1]}`, `{"content":[{"type":"text","text":"1"},{"type":"text","text":"[1]"}]}`},
		{"tools/call", `{"resultType":"complete","content":[{"type":"text","text":" [ 1.0, \"\\u00e9\" ] "}],"structuredContent":[1.0,"é"]}`, `{"content":[{"type":"text","text":" [ 1.0, \"\\u00e9\" ] "}]}`},
		{"tools/call", `{"resultType":"complete","content":[{"type":"text","text":"3 rows"},{"type":"x"}],"structuredContent":[1.0,2]}`, `{"content":[{"type":"text","text":"3 rows"},{"type":"x"},{"type":"text","text":"[1.0,2]"}]}`},
		{"tools/call", `{"resultType":"complete","content":[{"type":"text","text":"[1]"}],"structuredContent":[1.0]}`, `{"content":[{"type":"text","text":"[1]"},{"type":"text","text":"[1.0]"}]}`},
		{"tools/call", `{"resultType":"complete","content":[{"type":"text","text":"[1] [1]"}],"structuredContent":[1]}`, `{"content":[{"type":"text","text":"[1] [1]"},{"type":"text","text":"[1]"}]}`},
		{"tools/call", `{"resultType":"complete","content":[{"type":"text","text":"[1"}],"structuredContent":[1]}`, `{"content":[{"type":"text","text":"[1"},{"type":"text","text":"[1]"}]}`},
		{"tools/call", `{"resultType":"complete","content":[{"type":"text","text":"hi \"you\""}],"structuredContent":"hi \"you\""}`, `{"content":[{"type":"text","text":"hi \"you\""}]}`},
		{"tools/call", `{"resultType":"complete","content":[{"type":"image","data":"","mimeType":"image/png"}],"structuredContent":false}`, `{"content":[{"type":"image","data":"","mimeType":"image/png"},{"type":"text","text":"false"}]}`},
		{"tools/call", `{"resultType":"complete","content":null,"structuredContent":7}`, `{"content":[{"type":"text","text":"7"}]}`},
		{"tools/call", `{"resultType":"complete","content":[],"structuredContent":[1.0,"<"]}`, `{"content":[{"type":"text","text":"[1.0,\"<\"]"}]}`},
		{"tools/call", `{"resultType":"complete","structuredContent":null,"isError":true}`, `{"isError":true,"content":[{"type":"text","text":"null"}]}`},
		{"resources/read", `{"resultType":"complete","ttlMs":1,"cacheScope":"public","contents":[]}`, `{"contents":[]}`},
		{"prompts/get", `{"resultType":"task","taskId":"x"}`, `{"code":-32603,"message":"prompts/get: the server answered with resultType \"task\", which it must not"}`},
		{"tools/call", `{"resultType":7}`, `{"code":-32603,"message":"tools/call: the server answered with resultType \"\", which it must not"}`},
		{"prompts/get", `{"code":-32020,"message":"m"}`, `{"code":-32603,"message":"prompts/get: the server refused our request: m"}`},
		{"prompts/get", `{"code":-32022,"message":"m"}`, `{"code":-32603,"message":"prompts/get: the server refused our request: m"}`},
		{"prompts/get", `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}`,
			`{"code":-32603,"message":"prompts/get: the server needs something of the client that this client does not offer: {\"roots\":{}}"}`},
		{"tools/call", `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}`,
			`{"content":[{"type":"text","text":"the server needs something of the client that this client does not offer: {\"roots\":{}}"}],"isError":true}`},
		{"resources/read", `{"code":-32602,"message":"none"}`, `{"code":-32602,"message":"none"}`},
	} {
		g, up, s := eras(t, "2025-11-25", `{}`)
		up.stateless(test.method, test.reply)
		if got := g.ask(s, test.method, "{"+requests[test.method]+"}"); got != test.want {
			t.Errorf("%s %s: %s", test.method, test.reply, got)
		}
	}
}

// TestLegacyResultsStay checks that members without a meaning in the handshake era pass unchanged
// between peers of the handshake era.
func TestLegacyResultsStay(t *testing.T) {
	const result = `{"resultType":"odd","ttlMs":"x","requestState":1,"inputRequests":[]}`
	g, up, s := eras(t, "2025-11-25", `{}`)
	for method, params := range requests {
		up.on(method, result)
		if got := g.ask(s, method, "{"+params+`,"requestState":"mine","inputResponses":1}`); got != result {
			t.Errorf("%s: %s", method, got)
		}
		if sent := up.sent(); !strings.Contains(sent[0], `"requestState":"mine","inputResponses":1`) {
			t.Errorf("%s: sent %s", method, sent)
		}
	}
}

// TestErrorsForStatelessClients checks the error codes not shared by the eras.
func TestErrorsForStatelessClients(t *testing.T) {
	const visit = `{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x","message":"go"}]}}`
	for _, test := range []struct{ capabilities, method, reply, want string }{
		{`{}`, "resources/read", `{"code":-32002,"message":"none","data":{"uri":"u:1"}}`, `{"code":-32602,"message":"none","data":{"uri":"u:1"}}`},
		{`{}`, "tools/call", `{"code":-32600,"message":"m"}`, `{"code":-32600,"message":"m"}`},
		{`{"elicitation":{"form":{}}}`, "tools/call", visit, `{"code":-32021,"message":"visit","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}`},
		{`{"elicitation":{"url":{}}}`, "tools/call", `{"code":-32042,"message":"visit"}`, `{"code":-32603,"message":"tools/call: visit"}`},
	} {
		g, up, s := eras(t, stateless, test.capabilities)
		up.on(test.method, test.reply)
		if got := g.ask(s, test.method, "{"+requests[test.method]+"}"); got != test.want {
			t.Errorf("%s %s: %s", test.method, test.reply, got)
		}
	}
	g, up, s := eras(t, stateless, `{"elicitation":{"url":{}}}`)
	up.on("tools/call", visit)
	got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}")
	asked, _ := wire.Get([]byte(got), "inputRequests")
	all, _ := wire.Members(asked)
	if len(all) != 1 || string(all[0].Value) != `{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"go"}}` {
		t.Fatalf("asked %s", got)
	}
	state, _ := wire.GetString([]byte(got), "requestState")
	up.on("tools/call", `{"content":[]}`)
	if got := g.ask(s, "tools/call", "{"+requests["tools/call"]+`,"inputResponses":{"`+all[0].Name+`":{"action":"accept"}},"requestState":"`+state+`"}`); got != `{"content":[]}` {
		t.Errorf("after the visit: %s", got)
	}
	if sent := up.sent(); len(sent) != 2 || sent[0] != sent[1] {
		t.Errorf("sent %s", sent)
	}
}
