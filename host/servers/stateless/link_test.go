package stateless_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stdio"
	"github.com/mcp-metatool/mcp-metatool/host/servers/streamable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeLink is a stdio.Conn as a link.Link.
type pipeLink struct{ *stdio.Conn }

func (l pipeLink) Shutdown(time.Duration, <-chan struct{}) { l.Close() }

// rig is a link to a raw server over a transport.
type rig struct {
	*stateless.Link
	server  *mcptest.Server
	notes   chan string // forwarded notifications
	changed chan []wire.Surface
	updated chan string
	seen    map[string]bool // notifications already returned by next
	doubts  chan struct{}
}

var fast = stateless.Timings{Handover: time.Millisecond, FirstDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond}

// over runs a test over both transports.
func over(t *testing.T, sw mcptest.ServerOptions, test func(t *testing.T, r *rig)) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) { test(t, newRig(t, transport, sw)) })
	}
}

func newRig(t *testing.T, transport string, sw mcptest.ServerOptions) *rig {
	t.Helper()
	return newRigWith(t, transport, sw, fast)
}

func newRigWith(t *testing.T, transport string, sw mcptest.ServerOptions, timings stateless.Timings) *rig {
	t.Helper()
	if sw.Eras == "" {
		sw.Eras = mcptest.EraModern
	}
	r := &rig{
		server: mcptest.NewServer(sw), notes: make(chan string, 1000), changed: make(chan []wire.Surface, 100), doubts: make(chan struct{}, 100), updated: make(chan string, 100), seen: map[string]bool{},
	}
	opts := link.Options{Errors: servers.CallErrors("x"), Handler: link.Callbacks{OnNotification: func(m wire.Inbound) {
		if params, ok := r.Inbound(m); ok {
			r.notes <- m.Method + string(params)
		}
	}}}
	var below link.Link
	if transport == "http" {
		s := httptest.NewServer(r.server.HTTP())
		client, err := httpclient.New(httpclient.Config{Name: "x", URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		below = streamable.New(client, opts)
		t.Cleanup(func() {
			r.server.Close()
			s.Close()
		})
	} else {
		serverIn, out := io.Pipe()
		in, serverOut := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.server.ServeStdio(serverIn, serverOut)
		}()
		t.Cleanup(func() { <-done })
		below = pipeLink{stdio.NewConn(in, out, opts)}
	}
	r.Link = stateless.New(below, protocol.Stateless.Newest(), stateless.Options{
		Upstream: "x", Client: []byte(`{"clientInfo":{"name":"us","version":"1"},"capabilities":{}}`), HTTP: transport == "http",
		Errors: servers.CallErrors("x"), Changed: func(s []wire.Surface) { r.changed <- s }, Updated: func(uri string) { r.updated <- uri }, Doubt: func() { r.doubts <- struct{}{} }, Timings: timings,
	})
	t.Cleanup(func() { r.Shutdown(time.Second, nil) })
	return r
}

func (r *rig) ask(t *testing.T, method, params string) string {
	t.Helper()
	reply, err := r.CallWithin(t.Context(), wire.Call{Method: method, Params: []byte(params)}, rpc.Limit{Idle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return string(reply.Result) + string(reply.Error)
}

// next returns the next new notification. While a subscription takes the place of another
// subscription over HTTP, both deliver.
func (r *rig) next(t *testing.T) string {
	t.Helper()
	for {
		if n := mcptest.Receive(t, "a notification", r.notes); !r.seen[n] {
			r.seen[n] = true
			return n
		}
	}
}

// awaitOne waits until no subscription is being handed over.
func (r *rig) awaitOne(t *testing.T) {
	t.Helper()
	if err := r.server.AwaitSubscriptions(mcptest.Bounded(t), 1); err != nil {
		t.Fatal(err)
	}
}

// TestDiscover checks the conclusions from an answer to server/discover.
func TestDiscover(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		s, err := r.Discover(t.Context())
		if err != nil || s.Name != "raw" || s.Revision != protocol.Stateless.Newest() || !json.Valid(s.Initialize) {
			t.Fatalf("%+v, %v", s, err)
		}
		for member, want := range map[string]string{
			"protocolVersion": `"2026-07-28"`, "instructions": `"Handle with care."`, "_meta": `{"example.com/init":{"n":9007199254740993}}`,
			"serverInfo": `{"name":"raw","version":"0.1"}`,
		} {
			if got, _ := wire.Get(s.Initialize, member); string(got) != want {
				t.Errorf("%s: %s", member, got)
			}
		}
		for _, member := range []string{"resultType", "ttlMs", "cacheScope", "supportedVersions"} {
			if _, ok := wire.Get(s.Initialize, member); ok {
				t.Errorf("%s in %s", member, s.Initialize)
			}
		}
		if got := r.ask(t, "ping", ""); got != "{}" {
			t.Errorf("ping: %s", got)
		}
		if got := r.ask(t, "logging/setLevel", `{"level":"info"}`); got != "{}" {
			t.Errorf("setLevel: %s", got)
		}
		if err := r.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
			t.Error(err)
		}
		for _, e := range r.server.Received.All() {
			if e.Msg.Method != "server/discover" {
				t.Errorf("sent %s", e.Raw)
			}
		}
	})
	var other *stateless.OtherEraError
	var revision *stateless.RevisionError
	for name, test := range map[string]struct {
		sw   mcptest.ServerOptions
		as   any
		fine bool
	}{
		"handshake era":             {mcptest.ServerOptions{Eras: mcptest.EraLegacy, NoSessions: true}, &other, false},
		"an empty result":           {mcptest.ServerOptions{Discover: `{}`}, &other, false},
		"versions that are none":    {mcptest.ServerOptions{Discover: `{"resultType":"complete","supportedVersions":"2026-07-28","capabilities":{}}`}, &other, false},
		"asks for input":            {mcptest.ServerOptions{Discover: `{"resultType":"input_required","supportedVersions":["2026-07-28"],"capabilities":{}}`}, &other, false},
		"without a type":            {mcptest.ServerOptions{Discover: `{"supportedVersions":["2026-07-28"],"capabilities":{}}`}, nil, true},
		"refuses, names old ones":   {mcptest.ServerOptions{Versions: []string{"2025-11-25"}}, &other, false},
		"refuses, names later ones": {mcptest.ServerOptions{Versions: []string{"2099-01-01"}}, &revision, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newRig(t, "stdio", test.sw).Discover(t.Context())
			if (err == nil) != test.fine || err != nil && !errors.As(err, test.as) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestEnvelopes checks that a request has exactly the client's description.
func TestEnvelopes(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		const params = `{"name":"echo","arguments":{"n":9007199254740993},"_meta":{"traceparent":"00-1-1-01","io.modelcontextprotocol/clientInfo":{"name":"old"}}}`
		for client, want := range map[string]string{
			"": `"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"us","version":"1"}`,
			`{"capabilities":{"roots":{"listChanged":true},"tasks":{},"x":{"n":1.0}},"clientInfo":{"name":"c"}}`: `"io.modelcontextprotocol/clientCapabilities":{"roots":{},"x":{"n":1.0}},"io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/logLevel":"info"`,
			`{"capabilities":{"elicitation":{}}}`: `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info"`,
		} {
			call := wire.Call{Method: "tools/call", Params: []byte(params)}
			if client != "" {
				call.Client, call.LogLevel = []byte(client), "info"
			}
			reply, err := r.Call(t.Context(), call)
			if err != nil || !strings.Contains(string(reply.Result), `"arguments":{"n":9007199254740993},"_meta":{"traceparent":"00-1-1-01","io.modelcontextprotocol/protocolVersion":"2026-07-28",`+want+`}`) {
				t.Errorf("%s: %s %s, %v", client, reply.Result, reply.Error, err)
			}
		}
	})
}

// TestHopErrors checks that errors about the hop to the server do not reach clients.
func TestHopErrors(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		ask := `{"name":"ask","arguments":{"method":"elicitation/create","params":{"mode":"url"}}}`
		if got := r.ask(t, "tools/call", ask); !strings.Contains(got, `"code":-32021`) || !strings.Contains(got, `"data":{"requiredCapabilities":{"elicitation":{"url":{}}}}`) || !strings.Contains(got, `upstream \"x\"`) {
			t.Error(got)
		}
	})
	r := newRig(t, "stdio", mcptest.ServerOptions{Versions: []string{"2099-01-01"}})
	if got := r.ask(t, "tools/list", "{}"); !strings.Contains(got, `"code":-32603`) {
		t.Error(got)
	}
	mcptest.Receive(t, "the doubt", r.doubts)
	r = newRig(t, "http", mcptest.ServerOptions{HeaderTools: true}) // the server's tools have not been listed
	if got := r.ask(t, "tools/call", `{"name":"region","arguments":{"region":"r"}}`); !strings.Contains(got, `"code":-32603`) || !strings.Contains(got, "headers") {
		t.Error(got)
	}
}

const everything = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`

// TestListen checks that changes come through, without the members of the era, after any end of a
// subscription, and that updates of resources are subscribed to.
func TestListen(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		r.Listen(t.Context(), []byte(everything))
		r.awaitOne(t)
		r.server.Publish("notifications/tools/list_changed", "")
		r.server.Publish("notifications/prompts/list_changed", `{"x":1.0}`)
		if a, b := r.next(t), r.next(t); a != "notifications/tools/list_changed" || b != `notifications/prompts/list_changed{"x":1.0}` {
			t.Errorf("%s, %s", a, b)
		}
		if got := r.ask(t, "resources/subscribe", `{"uri":"unwatched:1"}`); !strings.Contains(got, "does not watch") {
			t.Error(got)
		}
		for _, uri := range []string{"f:1", "f:2", "f:1"} {
			if got := r.ask(t, "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri)); got != "{}" {
				t.Errorf("%s: %s", uri, got)
			}
		}
		r.server.Publish("notifications/resources/updated", `{"uri":"f:1"}`)
		if got := r.next(t); got != `notifications/resources/updated{"uri":"f:1"}` {
			t.Error(got)
		}
		for i, end := range []func(){r.server.EndSubscriptions, r.server.BreakSubscriptions, r.server.EndSubscriptions} {
			r.ask(t, "resources/subscribe", fmt.Sprintf(`{"uri":"f:new-%d"}`, i))
			r.awaitOne(t)
			from := r.server.Received.Len()
			end()
			if got := mcptest.Receive(t, "lists that may have changed", r.changed); !slices.Equal(got, []wire.Surface{wire.Tools, wire.Prompts, wire.Resources}) {
				t.Errorf("%d: %v", i, got)
			}
			e, _, err := r.server.Received.Find(mcptest.Bounded(t), "listen", from, mcptest.Method("subscriptions/listen"))
			if err != nil || !strings.Contains(string(e.Raw), `"resourceSubscriptions":["f:1","f:2","f:new-0"`) {
				t.Fatalf("%s, %v", e.Raw, err)
			}
			if got := r.ask(t, "resources/subscribe", fmt.Sprintf(`{"uri":"f:other-%d"}`, i)); got != "{}" { // waits for the acknowledgement
				t.Error(got)
			}
			if got := mcptest.Receive(t, "lists that may have changed", r.changed); !slices.Equal(got, []wire.Surface{wire.Tools, wire.Prompts, wire.Resources}) { // again, now with a subscription
				t.Errorf("%d: %v", i, got)
			}
			var missed []string
			for range 3 + 2*i {
				missed = append(missed, mcptest.Receive(t, "a resource that may have changed", r.updated))
			}
			if slices.Sort(missed); !slices.Equal(missed[:3], []string{"f:1", "f:2", "f:new-0"}) || len(slices.Compact(missed)) != 3+2*i {
				t.Errorf("%d: updates of %v may have been missed", i, missed)
			}
			r.server.Publish("notifications/resources/updated", fmt.Sprintf(`{"uri":"f:2","n":%d}`, i))
			if got := r.next(t); got != fmt.Sprintf(`notifications/resources/updated{"uri":"f:2","n":%d}`, i) {
				t.Error(got)
			}
		}
		from := r.server.Received.Len()
		if got := r.ask(t, "resources/unsubscribe", `{"uri":"f:2"}`); got != "{}" {
			t.Error(got)
		}
		e, _, err := r.server.Received.Find(mcptest.Bounded(t), "listen", from, mcptest.Method("subscriptions/listen"))
		if err != nil || !strings.Contains(string(e.Raw), `"resourceSubscriptions":["f:1","f:new-0"`) {
			t.Errorf("%s, %v", e.Raw, err)
		}
	})
}

// TestListenToNothing checks that a server without announcements gets no subscription, and that a
// server that refuses subscriptions is asked once.
func TestListenToNothing(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		r.Listen(t.Context(), []byte(`{"tools":{},"resources":{"subscribe":true}}`))
		r.ask(t, "tools/call", `{"name":"echo"}`)
		for _, e := range r.server.Received.All() {
			if e.Msg.Method == "subscriptions/listen" {
				t.Errorf("%s", e.Raw)
			}
		}
		if got := r.ask(t, "resources/subscribe", `{"uri":"f:1"}`); got != "{}" {
			t.Error(got)
		}
		r.server.Publish("notifications/resources/updated", `{"uri":"f:1"}`)
		r.next(t)
	})
}

// TestCancel checks that a call is cancelled in the way of the transport.
func TestCancel(t *testing.T) {
	over(t, mcptest.ServerOptions{}, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		call := wire.Call{Method: "tools/call", Params: []byte(`{"name":"wait"}`), Progress: func([]byte) { cancel() }}
		if _, err := r.Call(ctx, call); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := r.ask(t, "tools/call", `{"name":"idle"}`); !strings.Contains(got, `"idle":true`) { // once the call has ended at the server, too
			t.Error(got)
		}
		over := 0
		for _, e := range r.server.Received.All() {
			if e.Msg.Method == "notifications/cancelled" {
				over++
			}
		}
		if want := map[bool]int{true: 0, false: 1}[strings.HasSuffix(t.Name(), "http")]; over != want {
			t.Errorf("%d notifications", over)
		}
	})
}

// FuzzDiscoverResult checks that hostile answers to server/discover are read safely.
func FuzzDiscoverResult(f *testing.F) {
	f.Add(`{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
	f.Add(`{"supportedVersions":["2026-07-28"],"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":[]},"instructions":1}`)
	f.Add(`{"supportedVersions":[1],"capabilities":[]}`)
	f.Fuzz(func(t *testing.T, result string) {
		if !json.Valid([]byte(result)) {
			return
		}
		s, err := stateless.ReadServer([]byte(result))
		if err == nil && (!json.Valid(s.Initialize) || s.Revision.IsZero() || !wire.IsObject(s.Capabilities)) {
			t.Errorf("%s: %+v", result, s)
		}
	})
}

// FuzzInbound checks that hostile notifications are read safely.
func FuzzInbound(f *testing.F) {
	f.Add("notifications/subscriptions/acknowledged", `{"notifications":{"toolsListChanged":true}}`)
	f.Add("notifications/tools/list_changed", `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`)
	f.Fuzz(func(t *testing.T, method, params string) {
		if !json.Valid([]byte(params)) {
			return
		}
		l := stateless.New(nil, protocol.Stateless.Newest(), stateless.Options{Errors: servers.CallErrors("x")})
		if out, ok := l.Inbound(wire.Inbound{Method: method, Params: []byte(params)}); ok && out != nil && !json.Valid(out) {
			t.Errorf("%s: %s", params, out)
		}
	})
}
