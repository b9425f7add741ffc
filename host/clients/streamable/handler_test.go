package streamable

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

func TestHTTPSession(t *testing.T) {
	t.Parallel()
	for _, revision := range protocol.Handshake.Names() {
		t.Run(revision, func(t *testing.T) {
			w := newServer(t, Options{})
			g := w.join(revision)
			if got := g.call(ping); got != pong {
				t.Errorf("ping: %s", got)
			}
			call := `{"jsonrpc":"2.0","id":"ö","method":"tools/call","params":{"name":"echo","n":12345678901234567890.10}}`
			if got := g.call(call); got != `{"jsonrpc":"2.0","id":"ö","result":{"params":{"name":"echo","n":12345678901234567890.10}}}` {
				t.Errorf("echo: %s", got)
			}
			if got := g.call(`{"jsonrpc":"2.0","id":2,"method":"nope"}`); !strings.Contains(got, "-32601") {
				t.Errorf("nope: %s", got)
			}
			g.tell(`{"jsonrpc":"2.0","method":"notifications/x"}`)
			if got := <-w.backend.Notifications; got != "notifications/x " {
				t.Errorf("the backend heard %q", got)
			}
			if res := g.do(t.Context(), "DELETE", ""); res.StatusCode != 204 {
				t.Errorf("DELETE: %s %s", res.Status, read(t, res))
			}
			if s := <-w.backend.Ended; s != w.session() || w.http.Sessions() != 0 {
				t.Errorf("%d sessions are left", w.http.Sessions())
			}
			if res := g.post(ping); res.StatusCode != 404 {
				t.Errorf("after DELETE: %s %s", res.Status, read(t, res))
			}
		})
	}
}

func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Access: Access{AllowedHosts: []string{"mcp.example", "other.example:81"}, AllowedOrigins: []string{"https://app.example"}}})
	id := w.join("2025-11-25").id
	port := w.url[strings.LastIndex(w.url, ":")+1:]
	for _, tt := range []struct {
		name, method, body string
		header             []string
		status             int
		answer             string // part of the body
	}{
		{"PUT", "PUT", ping, nil, 405, "method not allowed"},
		{"OPTIONS", "OPTIONS", "", nil, 405, ""},
		{"parse error", "POST", `{"jsonrpc":`, nil, 400, `"id":null,"error":{"code":-32700`},
		{"no JSON-RPC", "POST", `{"id":7,"method":"x"}`, nil, 400, `"id":7,"error":{"code":-32600`},
		{"bad response", "POST", `{"jsonrpc":"2.0","id":7,"result":1,"error":2}`, nil, 400, "-32600"},
		{"batch where there are none", "POST", `[` + ping + `]`, nil, 400, `"id":null,"error":{"code":-32600`},
		{"empty", "POST", " ", nil, 400, "-32700"},
		{"parse error without session", "POST", `{`, []string{"Mcp-Session-Id", ""}, 400, "-32700"},
		{"no session", "POST", ping, []string{"Mcp-Session-Id", ""}, 400, `"id":1,"error":{"code":-32000,"message":"the Mcp-Session-Id header is missing`},
		{"unknown session", "POST", ping, []string{"Mcp-Session-Id", "x"}, 404, `"id":null,"error":{"code":-32001`}, // the body is not read
		{"GET without session", "GET", "", []string{"Mcp-Session-Id", ""}, 400, "missing"},
		{"GET of unknown session", "GET", "", []string{"Mcp-Session-Id", "x"}, 404, "not found"},
		{"DELETE without session", "DELETE", "", []string{"Mcp-Session-Id", ""}, 400, "missing"},
		{"DELETE of unknown session", "DELETE", "", []string{"Mcp-Session-Id", "x"}, 404, "not found"},
		{"second initialize", "POST", initialize, nil, 200, "initialized already"},
		{"unsupported revision", "POST", ping, []string{"MCP-Protocol-Version", "2099-01-01"}, 400, "2025-11-25"},
		{"GET, unsupported revision", "GET", "", []string{"MCP-Protocol-Version", "x"}, 400, "2025-11-25"},
		{"supported revision", "POST", ping, []string{"MCP-Protocol-Version", "2025-06-18"}, 200, "{}"},
		{"not JSON", "POST", ping, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{"no type", "POST", ping, []string{"Content-Type", ""}, 415, "application/json"},
		{"JSON with charset", "POST", ping, []string{"Content-Type", "Application/JSON; charset=utf-8"}, 200, "{}"},
		{"accepts only JSON", "POST", ping, []string{"Accept", "application/json"}, 406, "text/event-stream"},
		{"accepts only events", "POST", ping, []string{"Accept", "text/event-stream"}, 406, "application/json"},
		{"accepts all", "POST", ping, []string{"Accept", "*/*"}, 200, "{}"},
		{"accepts kinds", "POST", ping, []string{"Accept", "text/*;q=0.1, application/json;q=1"}, 200, "{}"},
		{"says not what it accepts", "POST", ping, []string{"Accept", ""}, 200, "{}"},
		{"GET accepts only JSON", "GET", "", []string{"Accept", "application/json"}, 406, "text/event-stream"},
		{"strange event id", "GET", "", []string{"Last-Event-ID", "zzz"}, 400, "not an event id of this server"},
		{"unknown event id", "GET", "", []string{"Last-Event-ID", "99.1"}, 400, "has ended"},
		{"event id of the future", "GET", "", []string{"Last-Event-ID", "0.77"}, 400, "never"},
		{"name of another", "POST", ping, []string{"Host", "evil.example"}, 403, "allowed_hosts"},
		{"localhost", "POST", ping, []string{"Host", "LocalHost:99"}, 200, "{}"},
		{"loopback", "POST", ping, []string{"Host", "[::1]:99"}, 200, "{}"},
		{"another address", "POST", ping, []string{"Host", "10.1.2.3"}, 403, "10.1.2.3"},
		{"allowed name", "POST", ping, []string{"Host", "MCP.example:8080"}, 200, "{}"},
		{"allowed name and port", "POST", ping, []string{"Host", "other.example:81"}, 200, "{}"},
		{"another port", "POST", ping, []string{"Host", "other.example:82"}, 403, "allowed_hosts"},
		{"page of another", "POST", ping, []string{"Origin", "https://evil.example"}, 403, "allowed_origins"},
		{"page of none", "GET", "", []string{"Origin", "null"}, 403, "allowed_origins"},
		{"page that looks local", "POST", ping, []string{"Origin", "http://localhost.evil.example"}, 403, "allowed_origins"},
		{"page with a user", "POST", ping, []string{"Origin", "http://localhost@evil.example"}, 403, "allowed_origins"},
		{"page of another local server", "POST", ping, []string{"Origin", "http://127.0.0.1:3000"}, 403, "allowed_origins"},
		{"page of another local server, by name", "POST", ping, []string{"Origin", "http://localhost:3000"}, 403, "allowed_origins"},
		{"page of another local server, usual port", "POST", ping, []string{"Origin", "http://localhost"}, 403, "allowed_origins"},
		{"page of another loopback address", "POST", ping, []string{"Origin", "http://127.0.0.2:" + port}, 403, "allowed_origins"},
		{"page of the other loopback address", "POST", ping, []string{"Origin", "http://[::1]:" + port}, 403, "allowed_origins"},
		{"page of our address with another scheme", "POST", ping, []string{"Origin", "https://127.0.0.1:" + port}, 403, "allowed_origins"},
		{"page that is ours by its Host only", "POST", ping, []string{"Origin", "http://mcp.example:" + port, "Host", "mcp.example:" + port}, 403, "allowed_origins"},
		{"page of our address", "POST", ping, []string{"Origin", "http://127.0.0.1:" + port}, 200, "{}"},
		{"page of our address, by name", "POST", ping, []string{"Origin", "http://LocalHost:" + port}, 200, "{}"},
		{"allowed page", "POST", ping, []string{"Origin", "https://app.example"}, 200, "{}"},
		{"page on another port", "POST", ping, []string{"Origin", "https://app.example:444"}, 403, "allowed_origins"},
		{"too large", "POST", `"` + strings.Repeat("x", 33<<20) + `"`, nil, 413, "max_message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &client{t: t, server: w, http: http.DefaultClient, id: id}
			res := g.do(t.Context(), tt.method, tt.body, tt.header...)
			if got := read(t, res); res.StatusCode != tt.status || !strings.Contains(got, tt.answer) {
				t.Errorf("got %s %s, want %d with %s", res.Status, got, tt.status, tt.answer)
			}
		})
	}
	if w.http.Sessions() != 1 {
		t.Errorf("%d sessions", w.http.Sessions())
	}
}

func TestTooLargeWithoutLength(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	r := w.join("2025-11-25").request(t.Context(), "POST", strings.Repeat("x", 33<<20))
	r.Host = "localhost"
	r.ContentLength = -1
	out := httptest.NewRecorder()
	w.http.ServeHTTP(out, r)
	if out.Code != 413 || !strings.Contains(out.Body.String(), "max_message") {
		t.Errorf("got %d %s", out.Code, out.Body)
	}
}

func TestHTTPTokens(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Access: Access{Tokens: tokens("secret", "other")}})
	for _, value := range []string{"", "Bearer", "Bearer wrong", "Basic secret", "secret"} {
		g := w.client()
		res := g.post(ping, "Authorization", value)
		if res.StatusCode != 401 || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%q: %s", value, res.Status)
		}
		read(t, res)
	}
	g := w.client()
	g.token = "secret"
	g.initialize("2025-11-25")
	if got := g.call(ping); got != pong {
		t.Error(got)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		body := ""
		if method == "POST" {
			body = ping
		}
		res := g.do(t.Context(), method, body, "Authorization", "Bearer other")
		if res.StatusCode != 404 {
			t.Errorf("%s with another token: %s", method, res.Status)
		}
		read(t, res)
	}
}

// TestSetAccess checks that sessions follow a change of the tokens.
func TestSetAccess(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Access: Access{Tokens: tokens("stays", "goes")}})
	stays, goes := w.client(), w.client()
	stays.token, goes.token = "stays", "goes"
	stays.initialize("2025-11-25")
	goes.initialize("2025-11-25")
	w.http.SetAccess(Access{Tokens: tokens("stays", "comes")})
	if got := stays.call(ping); got != pong {
		t.Errorf("a session whose token is as valid as before: %s", got)
	}
	for token, want := range map[string]int{"goes": 401, "comes": 404} { // the session has ended in any case
		res := goes.do(t.Context(), "POST", ping, "Authorization", "Bearer "+token)
		if res.StatusCode != want {
			t.Errorf("%s: %s", token, res.Status)
		}
		read(t, res)
	}
	comes := w.client()
	comes.token = "comes"
	comes.initialize("2025-11-25")
	w.http.SetAccess(Access{})
	open := w.client()
	open.initialize("2025-11-25")
	if got := open.call(ping); got != pong {
		t.Error(got)
	}
	w.http.SetAccess(Access{Tokens: tokens("stays")})
	if res := open.post(ping); res.StatusCode != 401 {
		t.Errorf("a session without a token: %s", res.Status)
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Access: Access{AllowedOrigins: []string{"https://app.example"}, Tokens: tokens("secret")}})
	res := w.client().do(t.Context(), "OPTIONS", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	if res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %s %v", res.Status, res.Header)
	}
	res = w.client().do(t.Context(), "OPTIONS", "", "Origin", w.url) // a page of the server's own address
	if res.StatusCode != 401 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight of a page that is not listed: %s %v", res.Status, res.Header)
	}
	read(t, res)
}

// TestAcceptOrder checks that clients that name event streams first get an event stream.
func TestAcceptOrder(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.join("2025-11-25")
	for accept, want := range map[string]string{
		"application/json, text/event-stream":       "application/json",
		"Text/Event-Stream, application/json;q=0.5": "text/event-stream",
		"*/*": "application/json",
	} {
		kind, got := g.body(callOf(7, "count", `{"times":0}`), "Accept", accept)
		if kind != want || !strings.Contains(got, `{"jsonrpc":"2.0","id":7,"result":{}}`) {
			t.Errorf("%s: %s\n%s", accept, kind, got)
		}
	}
}

func TestHTTPBatch(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.join("2025-03-26")
	got := g.call(`[` + ping + `,{"jsonrpc":"2.0","method":"notifications/x"},7]`)
	if got != `[`+pong+`,{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: a message is a JSON object"}}]` {
		t.Errorf("got %s", got)
	}
	g.tell(` [{"jsonrpc":"2.0","method":"notifications/x"}]`)
	e := g.stream("POST", `[`+callOf(1, "count", "{}")+`,`+callOf(2, "echo", "{}")+`]`)
	e.want(progressOf(1, 1), progressOf(1, 2))
	if got := e.next(); got[0] != '[' || strings.Count(got, `"result"`) != 2 {
		t.Errorf("got %s", got)
	}
	e.end()
}

func TestFailedInitializeLeavesNoSession(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{MaxSessions: 1})
	w.backend.Refuse <- wire.Errorf(-32099, "come back later")
	for _, body := range []string{initialize, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`} {
		res := w.client().post(body)
		if got := read(t, res); !strings.Contains(got, `"error"`) || res.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %s %s", res.Status, got)
		}
		if n := w.http.Sessions(); n != 0 {
			t.Errorf("%d sessions", n)
		}
	}
	w.join("2025-11-25")
}

func TestMaxSessions(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{MaxSessions: 2})
	g := w.join("2025-11-25")
	for _, used := range []*client{g, w.join("2025-11-25")} {
		used.call(callOf(1, "echo", "{}"))
	}
	res := w.client().post(initialize)
	if got := read(t, res); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(got, `"id":1,"error"`) {
		t.Errorf("got %s %s", res.Status, got)
	}
	if got := g.call(ping); got != pong {
		t.Error(got)
	}
	g.do(t.Context(), "DELETE", "")
	w.join("2025-11-25")
}

func TestIdleSessions(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{SessionTTL: hour})
	calling, listening := w.join("2025-11-25"), w.join("2025-11-25")
	answer := make(chan string, 1)
	go func() { answer <- calling.call(callOf(1, "wait", "{}")) }()
	mcptest.Receive(t, "the call", w.backend.Waiting)
	e := listening.stream("GET", "")
	first, second := w.session(), w.session()
	w.join("2025-11-25")
	late := time.Now().Add(2 * hour)
	w.http.expire(late)
	if s := mcptest.Receive(t, "the end of a session", w.backend.Ended); s == first || s == second || len(w.backend.Ended) > 0 {
		t.Error("a busy session was ended")
	}
	w.backend.Release <- struct{}{}
	if got := mcptest.Receive(t, "the answer", answer); got != waited {
		t.Errorf("got %s", got)
	}
	e.cancel()
	for ctx := mcptest.Bounded(t); len(w.backend.Ended) < 2; runtime.Gosched() { // the handler returns a moment later
		w.http.expire(late)
		if ctx.Err() != nil {
			t.Fatal("sessions that are no longer busy are not ended")
		}
	}
	if res := calling.post(ping); res.StatusCode != 404 {
		t.Errorf("an idle session is still there: %s", res.Status)
	}
}

func TestHTTPClose(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.join("2025-11-25")
	e := g.stream("GET", "")
	answer := make(chan string)
	go func() { answer <- g.call(callOf(1, "wait", "{}")) }()
	<-w.backend.Waiting
	asked := g.stream("POST", callOf(2, "ask", `{"method":"roots/list"}`))
	asked.next()
	if err := w.http.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if got := <-answer; !strings.Contains(got, `"id":1,`) {
		t.Errorf("the call in flight got %s", got)
	}
	e.end()
	if got := asked.next(); !strings.Contains(got, `"id":2,`) {
		t.Errorf("the call that waits for the client got %s", got)
	}
	asked.end()
	res := w.client().post(initialize)
	if res.StatusCode != 503 {
		t.Errorf("after Close: %s", res.Status)
	}
	read(t, res)
}

// TestSessionsLeaveNothing ends sessions in three ways. TestMain checks that no
// goroutine is left. On a slow machine a session may be too old before it is used.
func TestSessionsLeaveNothing(t *testing.T) {
	t.Parallel()
	const each = 170
	w := newServer(t, Options{SessionTTL: 300 * instant, ResumeWindow: instant})
	revisions := protocol.Handshake.Names()
	begun, asked := 0, 0
	for i := range 3 * each {
		g := w.client()
		for begun++; ; begun++ {
			if res, _ := g.begin(revisions[i%len(revisions)]); res.StatusCode != http.StatusNotFound {
				break
			}
			g = w.client()
		}
		switch i % 3 {
		case 0: // the client ends the session
			g.do(t.Context(), "DELETE", "")
		case 1: // the client disconnects with streams open and a call in flight
			ctx, cancel := context.WithCancel(t.Context())
			g.do(ctx, "GET", "")
			if res := g.do(ctx, "POST", callOf(1, "ask", `{"method":"roots/list"}`)); res.StatusCode == http.StatusOK {
				asked++
			}
			cancel()
		case 2: // the client does nothing more
		}
	}
	for range begun {
		<-w.backend.Ended
	}
	for range asked {
		if err := <-w.backend.Cancelled; !errors.Is(err, wire.ErrClosed) {
			t.Fatalf("cancelled with %v", err)
		}
	}
}

// tokens returns tokens with all rights.
func tokens(list ...string) (all []bearer.Token) {
	for _, token := range list {
		all = append(all, bearer.Token{Digest: bearer.DigestOf(token)})
	}
	return all
}
