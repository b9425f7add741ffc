package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// modern is a request of the stateless era. A member of params may be "".
func modern(id, method, members string) string {
	if members != "" {
		members += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":%s}}`, id, method, members, clienttest.Envelope)
}

// headers returns the headers of a message of the stateless era, as pairs for client.post.
func headers(body string) []string {
	all := []string{"Mcp-Protocol-Version", "2026-07-28"}
	method, _ := wire.GetString([]byte(body), "method")
	all = append(all, "Mcp-Method", method)
	for _, member := range []string{"name", "uri"} {
		if name, ok := wire.GetString([]byte(body), "params", member); ok {
			all = append(all, "Mcp-Name", name)
		}
	}
	return all
}

// modern posts a request of the stateless era.
func (g *client) modern(body string, more ...string) *http.Response {
	g.t.Helper()
	return g.post(body, append(headers(body), more...)...)
}

// answers checks the HTTP status and the body of the answer to a request.
func (g *client) answers(res *http.Response, status int, want string) {
	g.t.Helper()
	body := read(g.t, res)
	var lines clienttest.Lines
	if bad := lines.Check(body, want); bad != "" || res.StatusCode != status {
		g.t.Errorf("%s, want %d\n%s", res.Status, status, bad)
	}
}

func errorText(id string, code int, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, wire.Quote(message))
}

const mismatched = "the header Mcp-Protocol-Version does not match the body"

// TestEraOfPOST is the table of headers and bodies with the resulting era.
func TestEraOfPOST(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.client()
	old := w.join("2025-11-25")
	list := modern("1", "tools/list", "")
	plain := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	other := func(version string) string { return strings.Replace(list, "2026-07-28", version, 1) }
	incomplete := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}`
	const modernVersion, method = "2026-07-28", "tools/list"
	ok := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","x":9007199254740993},{"name":"wait"}],"nextCursor":"2","resultType":"complete","ttlMs":1000,"cacheScope":"private","_meta":$S}}`
	unsupported := `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"1900-01-01"}}}`
	for _, tt := range []struct {
		name     string
		g        *client
		version  string // header; "" for none
		body     string
		status   int
		response string
	}{
		{"modern, modern", g, modernVersion, list, 200, ok},
		{"modern, modern, in a session", old, modernVersion, list, 200, ok},
		{"modern, none", g, modernVersion, plain, 400, errorText("1", -32602, "params._meta is missing")},
		{"modern, none, in a session", old, modernVersion, plain, 400, errorText("1", -32602, "params._meta is missing")},
		{"modern, initialize", g, modernVersion, initialize, 400, errorText("1", -32602, "params._meta is missing")},
		{"modern, old", g, modernVersion, other("2025-11-25"), 400, errorText("1", -32020, mismatched)},
		{"modern, unknown", g, modernVersion, other("1900-01-01"), 400, errorText("1", -32020, mismatched)},
		{"none, modern", g, "", list, 400, errorText("1", -32020, "the header Mcp-Protocol-Version is missing")},
		{"none, modern, in a session", old, "", list, 400, errorText("1", -32020, "the header Mcp-Protocol-Version is missing")},
		{"none, discover without envelope", g, "", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 400, errorText("1", -32602, "params._meta is missing")},
		{"none, discover without envelope, in a session", old, "", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 400, errorText("1", -32602, "params._meta is missing")},
		{"none, none", g, "", plain, 400, errorText("1", -32000, "the Mcp-Session-Id header is missing (begin with initialize)")},
		{"old, modern", g, "2025-11-25", list, 400, errorText("1", -32020, mismatched)},
		{"old, modern, in a session", old, "2025-11-25", list, 400, errorText("1", -32020, mismatched)},
		{"old, none, in a session", old, "2025-11-25", plain, 200, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","x":9007199254740993},{"name":"wait"}],"nextCursor":"2"}}`},
		{"unknown, the same", g, "1900-01-01", other("1900-01-01"), 400, unsupported},
		{"unknown, modern", g, "1900-01-01", list, 400, errorText("1", -32020, mismatched)},
		{"unknown, none", g, "1900-01-01", plain, 400, errorText("1", -32602, "params._meta is missing")},
		{"unknown, none, in a session", old, "1900-01-01", plain, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"unsupported MCP-Protocol-Version \"1900-01-01\" (supported: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05)"}}`},
		{"unknown, the same, in a session", old, "1900-01-01", other("1900-01-01"), 400, unsupported},
		{"unknown, modern, in a session", old, "1900-01-01", list, 400, errorText("1", -32020, mismatched)},
		{"none, incomplete", g, "", incomplete, 400, errorText("1", -32020, "the header Mcp-Protocol-Version is missing")},
		{"old, incomplete, in a session", old, "2025-11-25", incomplete, 400, errorText("1", -32020, mismatched)},
		{"modern, batch", g, modernVersion, "[" + list + "]", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: a message is a JSON object"}}`},
		{"modern, response", g, modernVersion, `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: a client of this revision does not send responses"}}`},
		{"modern, notification", g, modernVersion, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, 202, ""},
		{"none, modern notification", g, "", `{"jsonrpc":"2.0","method":"x","params":{"_meta":` + clienttest.Envelope + `}}`, 202, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := *tt.g
			c.t = t
			header := []string{"Mcp-Method", method}
			if tt.version != "" {
				header = append(header, "Mcp-Protocol-Version", tt.version)
			}
			c.answers(c.post(tt.body, header...), tt.status, tt.response)
		})
	}
}

// TestStatusOfErrors is the table of errors and HTTP statuses.
func TestStatusOfErrors(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.client()
	echo := modern("1", "tools/call", `"name":"echo","arguments":{"region":"eu"}`)
	for _, tt := range []struct {
		name   string
		body   string
		change []string
		status int
		want   string
	}{
		{"unknown tool", modern("1", "tools/call", `"name":"none"`), nil, 200, errorText("1", -32602, "unknown tool: none")},
		{"removed", modern(`"x"`, "ping", ""), nil, 404, errorText(`"x"`, -32601, "method not found: ping")},
		{"unknown", modern("1", "acme/x", ""), nil, 404, errorText("1", -32601, "method not found: acme/x")},
		{"lacked by the server behind", modern("1", "tools/call", `"name":"lacking"`), nil, 200, errorText("1", -32601, "the server lacks it")},
		{"lacked by us", modern("1", "completion/complete", ""), nil, 404, errorText("1", -32601, "no completions")},
		{"method", echo, []string{"Mcp-Method", "tools/list"}, 400, errorText("1", -32020, "the header Mcp-Method does not match the body")},
		{"no method", echo, []string{"Mcp-Method", ""}, 400, errorText("1", -32020, "the header Mcp-Method is missing")},
		{"name", echo, []string{"Mcp-Name", "Echo"}, 400, errorText("1", -32020, "the header Mcp-Name does not match the body")},
		{"no name", echo, []string{"Mcp-Name", ""}, 400, errorText("1", -32020, "the header Mcp-Name is missing")},
		{"bad base64", echo, []string{"Mcp-Name", "=?base64?!?="}, 400, errorText("1", -32020, "the header Mcp-Name has characters that need base64, or bad base64")},
		{"no argument", echo, nil, 400, errorText("1", -32020, "the header Mcp-Param-Region is missing")},
		{"argument", echo, []string{"Mcp-Param-Region", "us"}, 400, errorText("1", -32020, "the header Mcp-Param-Region does not match the body")},
		{"right", echo, []string{"Mcp-Param-Region", "eu", "Mcp-Name", "=?base64?ZWNobw==?=", "Mcp-Session-Id", "any", "Last-Event-Id", "1.2"}, 200,
			`{"jsonrpc":"2.0","id":1,"result":{"params":{"name":"echo","arguments":{"region":"eu"}},"resultType":"complete","_meta":$S}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := *g
			c.t = t
			res := c.modern(tt.body, tt.change...)
			if res.Header.Get("Mcp-Session-Id") != "" {
				t.Error("a session was begun")
			}
			c.answers(res, tt.status, tt.want)
		})
	}
	for _, method := range []string{"GET", "DELETE", "PUT"} {
		res := g.do(t.Context(), method, "", "Mcp-Protocol-Version", "2026-07-28")
		if res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %s, Allow %q", method, res.Status, res.Header.Get("Allow"))
		}
	}
}

// TestEqualIDs checks that requests of several clients with the same id are independent, and that
// only the end of a request's connection cancels the request.
func TestEqualIDs(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	first, second := w.client(), w.client()
	wait := modern("1", "tools/call", `"name":"wait"`)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		res, err := first.http.Do(first.request(ctx, "POST", wait, headers(wait)...))
		if err == nil {
			res.Body.Close()
		}
		gone <- err
	}()
	<-w.backend.Waiting
	answered := make(chan *http.Response, 1)
	go func() { answered <- second.modern(wait) }()
	<-w.backend.Waiting
	second.modern(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	leave()
	if err := <-gone; err == nil {
		t.Error("the first request was answered")
	}
	if cause := <-w.backend.Cancelled; !strings.Contains(cause.Error(), clients.ErrClientGone.Error()) {
		t.Errorf("cancelled with %v", cause)
	}
	w.backend.Release <- struct{}{}
	second.answers(<-answered, 200, `{"jsonrpc":"2.0","id":1,"result":{"waited":true,"resultType":"complete","_meta":$S}}`)
}

// TestResponseStream checks an answer with notifications before it: an event stream
// without ids.
func TestResponseStream(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.client()
	body := strings.Replace(modern("1", "tools/call", `"name":"count","arguments":{"times":2}`), `"_meta":{`, `"_meta":{"progressToken":1,`, 1)
	res := g.modern(body)
	if res.Header.Get("X-Accel-Buffering") != "no" || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("headers %v", res.Header)
	}
	want := "event: message\ndata: " + progressOf(1, 1) + "\n\nevent: message\ndata: " + progressOf(1, 2) + "\n\n" +
		"event: message\ndata: " + `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":` + clienttest.ResultMeta + "}}\n\n"
	if got := read(t, res); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// ask begins a call that asks for roots, and returns its requestState.
func (g *client) ask(id string) (state string) {
	g.t.Helper()
	res := g.modern(modern(id, "tools/call", `"name":"ask","arguments":{"method":"roots/list"}`))
	var answer struct {
		Result struct{ RequestState string }
	}
	body := read(g.t, res)
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Result.RequestState == "" {
		g.t.Fatalf("%s: %s", res.Status, body)
	}
	return answer.Result.RequestState
}

// retry is the request that follows ask. roots are the answer, "" for none.
func retry(id, state, roots string) string {
	if roots != "" {
		roots = `"inputResponses":{"q1":{"roots":` + roots + `}},`
	}
	return modern(id, "tools/call", fmt.Sprintf(`"name":"ask","arguments":{"method":"roots/list"},%s"requestState":%q`, roots, state))
}

const invalidState = "requestState is not valid for this request (begin again without it)"

// TestStateOfPrincipal checks that only the client that was asked can answer.
func TestStateOfPrincipal(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Access: Access{Tokens: tokens("a", "b")}})
	a, b := w.client(), w.client()
	a.token, b.token = "a", "b"
	state := a.ask("1")
	b.answers(b.modern(retry("1", state, "[]")), 200, errorText("1", -32602, invalidState))
	a.answers(a.modern(retry("2", state, "[]")), 200, `{"jsonrpc":"2.0","id":2,"result":{"answer":{"roots":[]},"resultType":"complete","_meta":$S}}`)
	state = a.ask("3")
	w.http.SetAccess(Access{Tokens: tokens("b")})
	<-w.backend.Began
	if cause := <-w.backend.Cancelled; cause == nil {
		t.Error("the parked call goes on")
	}
	w.http.SetAccess(Access{Tokens: tokens("a", "b")})
	a.answers(a.modern(retry("4", state, "[]")), 200, errorText("4", -32602, invalidState))
}

// TestDisconnectOfParkedCall checks that the end of a connection cancels a call only while
// the call has a request.
func TestDisconnectOfParkedCall(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.client()
	state := g.ask("1")
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	g.answers(g.modern(retry("2", state, "")), 200,
		`{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"q1":{"method":"roots/list"}},"requestState":"$STATE","_meta":$S}}`)
	g.answers(g.modern(retry("3", state, "[]")), 200, errorText("3", -32602, invalidState))
	if len(w.backend.Cancelled) > 0 {
		t.Errorf("cancelled with %v", <-w.backend.Cancelled)
	}
}

// TestListen checks a subscription over HTTP, and that the server ends it with a result.
func TestListen(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.client()
	body := modern(`"s"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	e := g.stream("POST", body, headers(body)...)
	e.want(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"},"notifications":{"toolsListChanged":true}}}`)
	s := w.session()
	s.Changed(wire.Prompts, nil)
	s.Changed(wire.Tools, nil)
	e.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}`)
	go w.close()
	e.want(`{"jsonrpc":"2.0","id":"s","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"s",` + clienttest.ResultMeta[1:] + `}}`)
	e.end()
	<-w.backend.Ended
}

// TestSeveralVersions checks that a request with several headers with a revision is refused in both
// eras, also if the headers name the same revision.
func TestSeveralVersions(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	old := w.join("2025-11-25")
	plain := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	list := modern("1", "tools/list", "")
	for _, tt := range []struct {
		name, method, body string
		versions           []string
	}{
		{"the same twice", "POST", plain, []string{"2025-11-25", "2025-11-25"}},
		{"two of the handshake era", "POST", plain, []string{"2025-11-25", "2025-06-18"}},
		{"one of each era", "POST", plain, []string{"2025-11-25", "2026-07-28"}},
		{"one of each era, turned", "POST", plain, []string{"2026-07-28", "2025-11-25"}},
		{"one of each era, stateless body", "POST", list, []string{"2025-11-25", "2026-07-28"}},
		{"the same twice, stateless", "POST", list, []string{"2026-07-28", "2026-07-28"}},
		{"GET", "GET", "", []string{"2025-11-25", "2026-07-28"}},
		{"GET, stateless", "GET", "", []string{"2026-07-28", "2026-07-28"}},
		{"DELETE", "DELETE", "", []string{"2025-11-25", "2026-07-28"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := old.request(context.Background(), tt.method, tt.body, "Mcp-Method", "tools/list")
			r.Header["Mcp-Protocol-Version"] = tt.versions
			res, err := old.http.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = res.Body.Close() })
			if res.StatusCode != http.StatusBadRequest { // the body may be a stream without an end
				t.Fatal(res.Status)
			}
			if body := read(t, res); !strings.Contains(body, "Mcp-Protocol-Version has several values") {
				t.Error(body)
			}
		})
	}
}
