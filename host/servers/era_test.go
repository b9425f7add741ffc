package servers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// verdicts records what an upstream finds out.
type verdicts struct {
	mu  sync.Mutex
	all []protocol.Era
	got chan protocol.Era
}

func (v *verdicts) add(of Verdict) {
	v.mu.Lock()
	v.all = append(v.all, of.Era)
	v.mu.Unlock()
	v.got <- of.Era
}

// peer is a raw server over stdio whose messages are observed, with an upstream for it.
type peer struct {
	*fixture
	received *mcptest.Log
	verdicts verdicts
}

// launchPeerHere starts an upstream of a raw server in this process, in a bubble of testing/synctest.
func launchPeerHere(t *testing.T, sw mcptest.ServerOptions, s Spec, known Verdict, client protocol.Era, with timings) *peer {
	t.Helper()
	server := mcptest.NewServer(sw)
	p := &peer{received: server.Received, verdicts: verdicts{got: make(chan protocol.Era, 100)}}
	s.Name, s.Command = "x", inProcess
	p.fixture = launchWith(t, s, Options{Verdict: known, OnVerdict: p.verdicts.add, Era: func() protocol.Era { return client }, Streams: func(Spec) (io.ReadCloser, io.WriteCloser, bool) {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		go server.ServeStdio(in, out) // until its input ends, for which the bubble waits
		return fromServer, toServer, true
	}}, with)
	return p
}

// launchPeer starts an upstream of a raw server.
func launchPeer(t *testing.T, sw mcptest.ServerOptions, s Spec, known Verdict, client protocol.Era, with timings) *peer {
	t.Helper()
	o, err := mcptest.NewObserver()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	sw.Observer = o.Addr()
	p := &peer{received: &o.Log, verdicts: verdicts{got: make(chan protocol.Era, 100)}}
	s.Name, s.Command = "x", os.Args[0]
	for k, v := range sw.Environ() {
		s.Env = append(s.Env, k+"="+v)
	}
	p.fixture = launchWith(t, s, Options{Verdict: known, OnVerdict: p.verdicts.add, Era: func() protocol.Era { return client }}, with)
	return p
}

// methods returns the requests that a server received, without repeated ones.
func methods(log *mcptest.Log) string {
	var all []string
	for _, e := range log.All() {
		if e.Msg.IsRequest() && (len(all) == 0 || all[len(all)-1] != e.Msg.Method) {
			all = append(all, e.Msg.Method)
		}
	}
	return strings.Join(all, " ")
}

// TestEraOverStdio checks how upstreams begin with servers of either era, and with
// servers that exit, stay silent or answer nonsense.
func TestEraOverStdio(t *testing.T) {
	t.Parallel()
	both := Verdict{Era: protocol.Stateless, At: time.Now().Add(-time.Hour)}
	modern := Verdict{Era: protocol.Stateless, Only: true, At: both.At}
	exits := map[string]mcptest.Fault{"server/discover": {Kind: mcptest.CrashBefore}}
	silent := map[string]mcptest.Fault{"server/discover": {Kind: mcptest.Hang}}
	for name, test := range map[string]struct {
		server   mcptest.ServerOptions
		protocol string
		known    Verdict
		revision string // "": it fails
		begins   string // the first requests
		client   protocol.Era
	}{
		"legacy":                          {mcptest.ServerOptions{}, "", Verdict{}, "2025-11-25", "initialize tools/list", 0},
		"both eras":                       {mcptest.ServerOptions{Eras: "both"}, "auto", Verdict{}, "2025-11-25", "initialize tools/list", 0},
		"both eras, known":                {mcptest.ServerOptions{Eras: "both"}, "auto", both, "2025-11-25", "initialize tools/list", protocol.Handshake},
		"both eras, a stateless client":   {mcptest.ServerOptions{Eras: "both"}, "auto", both, "2026-07-28", "server/discover subscriptions/listen tools/list", protocol.Stateless},
		"both eras, not known":            {mcptest.ServerOptions{Eras: "both"}, "auto", Verdict{}, "2025-11-25", "initialize tools/list", protocol.Stateless},
		"modern, which was not noted":     {mcptest.ServerOptions{Eras: "modern"}, "auto", both, "2026-07-28", "initialize server/discover subscriptions/listen tools/list", protocol.Handshake},
		"both eras, configured":           {mcptest.ServerOptions{Eras: "both"}, "2026-07-28", Verdict{}, "2026-07-28", "server/discover subscriptions/listen tools/list", 0},
		"both eras, configured as legacy": {mcptest.ServerOptions{Eras: "both"}, "legacy", modern, "2025-11-25", "initialize tools/list", 0},
		"modern":                          {mcptest.ServerOptions{Eras: "modern"}, "", Verdict{}, "2026-07-28", "initialize server/discover subscriptions/listen tools/list", 0},
		"modern, configured as legacy":    {mcptest.ServerOptions{Eras: "modern"}, "legacy", Verdict{}, "", "initialize", 0},
		"legacy, configured as modern":    {mcptest.ServerOptions{}, "2026-07-28", Verdict{}, "", "server/discover", 0},
		"no longer modern":                {mcptest.ServerOptions{}, "", modern, "2025-11-25", "server/discover initialize tools/list", 0},
		"exits now":                       {mcptest.ServerOptions{Faults: exits}, "", modern, "2025-11-25", "server/discover initialize tools/list", 0},
		"silent now":                      {mcptest.ServerOptions{Faults: silent}, "", modern, "2025-11-25", "server/discover initialize tools/list", 0},
		"answers nonsense":                {mcptest.ServerOptions{Eras: "both", Discover: `{}`}, "", modern, "2025-11-25", "server/discover initialize tools/list", 0},
		"names other revisions":           {mcptest.ServerOptions{Eras: "both", Versions: []string{"2025-11-25"}}, "", modern, "2025-11-25", "server/discover initialize tools/list", 0},
		"a later revision only":           {mcptest.ServerOptions{Eras: "modern", Versions: []string{"later"}}, "", Verdict{}, "", "initialize server/discover", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := func(t *testing.T, launch func(*testing.T, mcptest.ServerOptions, Spec, Verdict, protocol.Era, timings) *peer) {
				p := launch(t, test.server, Spec{Protocol: test.protocol, Restart: RestartNever}, test.known, test.client, fastTimings)
				<-p.Started()
				if got := p.Status(); got.ProtocolVersion != test.revision || (got.State == Ready) != (test.revision != "") {
					t.Errorf("%+v", got)
				}
				at := 0
				for _, method := range strings.Fields(test.begins) { // which come over another connection
					var err error
					if _, at, err = p.received.Find(t.Context(), method, at, mcptest.Method(method)); err != nil {
						t.Fatal(err)
					}
				}
				if got := methods(p.received); !strings.HasPrefix(got, test.begins) {
					t.Errorf("requests %s, want %s", got, test.begins)
				}
				if test.revision != "" {
					if got := p.call(t, "echo"); !strings.Contains(got, `"received"`) {
						t.Error(got)
					}
					server, _ := p.Server()
					if v, _ := wire.GetString(server, "protocolVersion"); v != test.revision {
						t.Errorf("server %s", server)
					}
				}
			}
			if name != "silent now" {
				begin(t, launchPeer)
				return
			}
			synctest.Test(t, func(t *testing.T) { begin(t, launchPeerHere) }) // else it would take as long as the answer may
		})
	}
}

// webPeer is a raw server over HTTP.
type webPeer struct {
	*mcptest.Server
	url    string
	before func(w http.ResponseWriter, r *http.Request) bool // answers a request in place of the server
}

func newWebPeer(t *testing.T, sw mcptest.ServerOptions) *webPeer {
	p := &webPeer{Server: mcptest.NewServer(sw)}
	handler := p.HTTP()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.before == nil || !p.before(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		p.Close()
		s.Close()
	})
	p.url = s.URL
	return p
}

// TestEraOverHTTP checks how upstreams begin with servers over HTTP, and that what says
// nothing about the era of a server decides nothing.
func TestEraOverHTTP(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		eras     string
		known    protocol.Era
		age      time.Duration
		status   int // of the first responses to server/discover; 0: as usual, -1: the connection breaks, 1: none
		times    int
		revision string
		verdict  protocol.Era // the last one
		begins   string
	}{
		"legacy":                   {"", 0, 0, 0, 0, "2025-11-25", protocol.Handshake, "server/discover initialize"},
		"legacy, known":            {"", protocol.Handshake, time.Hour, 0, 0, "2025-11-25", 0, "initialize"},
		"legacy, known long ago":   {"", protocol.Handshake, 30 * 24 * time.Hour, 0, 0, "2025-11-25", protocol.Handshake, "server/discover initialize"},
		"legacy, known too late":   {"", protocol.Handshake, -time.Hour, 0, 0, "2025-11-25", protocol.Handshake, "server/discover initialize"},
		"both":                     {"both", 0, 0, 0, 0, "2026-07-28", protocol.Stateless, "server/discover"},
		"modern":                   {"modern", 0, 0, 0, 0, "2026-07-28", protocol.Stateless, "server/discover"},
		"modern, known as legacy":  {"modern", protocol.Handshake, time.Hour, 0, 0, "2026-07-28", protocol.Stateless, "initialize server/discover"},
		"once 503":                 {"both", 0, 0, 503, 1, "2026-07-28", protocol.Stateless, "server/discover"},
		"always 500":               {"", 0, 0, 500, 1000, "2025-11-25", 0, "initialize"},
		"once 401":                 {"both", 0, 0, 401, 1, "2026-07-28", protocol.Stateless, "server/discover"},
		"always 403":               {"", 0, 0, 403, 1000, "2025-11-25", 0, "initialize"},
		"always 429":               {"", 0, 0, 429, 1000, "2025-11-25", 0, "initialize"},
		"once 403":                 {"both", 0, 0, 403, 1, "2025-11-25", 0, "initialize"},
		"once 403, once modern":    {"both", protocol.Stateless, time.Hour, 403, 1, "2026-07-28", protocol.Stateless, "server/discover"},
		"once 429, once modern":    {"both", protocol.Stateless, time.Hour, 429, 1, "2026-07-28", protocol.Stateless, "server/discover"},
		"404 with HTML":            {"", 0, 0, 404, 1000, "2025-11-25", protocol.Handshake, "initialize"},
		"405":                      {"", 0, 0, 405, 1000, "2025-11-25", protocol.Handshake, "initialize"},
		"200 with HTML":            {"", 0, 0, 200, 1000, "2025-11-25", protocol.Handshake, "initialize"},
		"always silent":            {"", 0, 0, 1, 1000, "2025-11-25", 0, "initialize"},
		"silent, once modern":      {"both", protocol.Stateless, time.Hour, 1, 1, "2026-07-28", protocol.Stateless, "server/discover"},
		"a connection that breaks": {"both", protocol.Stateless, time.Hour, -1, 1, "2026-07-28", protocol.Stateless, "server/discover"},
		"all connections break":    {"", 0, 0, -1, 1000, "2025-11-25", 0, "initialize"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newWebPeer(t, mcptest.ServerOptions{Eras: test.eras})
			left := test.times
			var mu sync.Mutex
			p.before = func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				fault := r.Header.Get("Mcp-Method") == "server/discover" && left > 0
				if fault {
					left--
				}
				mu.Unlock()
				if !fault {
					return false
				}
				switch test.status {
				case -1:
					panic(http.ErrAbortHandler)
				case 1:
					_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client has gone
					<-r.Context().Done()
					return true
				}
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(test.status)
				fmt.Fprint(w, "<html>no</html>")
				return true
			}
			known := Verdict{Era: test.known}
			if test.known != 0 {
				known.At = time.Now().Add(-test.age)
			}
			v := verdicts{got: make(chan protocol.Era, 100)}
			with, opts := fastTimings, Options{Verdict: known, OnVerdict: v.add}
			var u *Upstream
			running := make(chan struct{})
			if test.status == 1 {
				with.discover = testenv.Quiet(50 * time.Millisecond)
			}
			if test.status == 1 && test.times == 1 {
				starts := 0
				opts.Resolve = func(_ context.Context, s Spec) (Spec, error) { // before each start
					if starts++; starts == 2 {
						<-running
						u.timings.discover = time.Minute
						mu.Lock()
						left = 0 // the first request may have been given up before it came
						mu.Unlock()
					}
					return s, nil
				}
			}
			f := launchWith(t, Spec{Name: "web", URL: p.url}, opts, with)
			u = f.Upstream
			close(running)
			for f.Status().State != Ready {
				f.mu.Lock()
				changed := f.stateChanged
				f.mu.Unlock()
				if f.Status().State != Ready {
					<-changed
				}
			}
			if got := f.Status().ProtocolVersion; got != test.revision {
				t.Errorf("%+v", f.Status())
			}
			if got := methods(p.Received); !strings.HasPrefix(got, test.begins) {
				t.Errorf("requests %s, want %s", got, test.begins)
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			if n := len(v.all); (n == 0) != (test.verdict == 0 && test.known == test.verdict || test.known == protocol.Handshake && test.verdict == 0) && test.verdict != 0 || n > 0 && v.all[n-1] != test.verdict {
				t.Errorf("verdicts %v", v.all)
			}
		})
	}
}

// TestNeitherEra checks that the error of a server over HTTP that refuses the first requests of both
// eras is that of the first one and names the setting, unless it is about the authorization.
func TestNeitherEra(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		discover, initialize int    // the status; 0: the connection breaks
		want                 string // the beginning of the error
		advice               bool
	}{
		"403":                       {403, 403, `upstream "web": start failed: answer to server/discover: HTTP status 403 (Forbidden): first; `, true},
		"429, then a broken server": {429, 500, `upstream "web": start failed: answer to server/discover: HTTP status 429 (Too Many Requests): first; `, true},
		"no answer":                 {0, 0, `upstream "web": its connection failed before the answer came: `, true},
		"403, then 401":             {403, 401, `upstream "web": not authorized: it answered HTTP status 401`, false},
		"401":                       {401, 401, `upstream "web": not authorized: it answered HTTP status 401`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newWebPeer(t, mcptest.ServerOptions{})
			p.before = func(w http.ResponseWriter, r *http.Request) bool {
				status, body := test.initialize, "second"
				if r.Header.Get("Mcp-Method") == "server/discover" {
					status, body = test.discover, "first"
				}
				if status == 0 {
					panic(http.ErrAbortHandler)
				}
				http.Error(w, body, status)
				return true
			}
			f := launch(t, Spec{Name: "web", URL: p.url, Restart: RestartNever})
			<-f.Started()
			err := f.Ready(t.Context())
			const advice = `; initialize failed too (if the server speaks only one era of MCP, set its protocol to "legacy" or "2026-07-28")`
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.HasSuffix(err.Error(), advice) != test.advice {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestEraChanges checks that an upstream notices when the server behind its URL begins to
// speak the other era.
func TestEraChanges(t *testing.T) {
	t.Parallel()
	legacy, modern := mcptest.NewServer(mcptest.ServerOptions{}), mcptest.NewServer(mcptest.ServerOptions{Eras: "modern"})
	defer legacy.Close()
	defer modern.Close()
	var mu sync.Mutex
	now := modern
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		handler := now.HTTP()
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	defer s.Close()
	f := launchWith(t, Spec{Name: "web", URL: s.URL}, Options{}, fastTimings)
	defer f.stop(t)
	f.call(t, "echo")
	for i, next := range []*mcptest.Server{legacy, modern, legacy} {
		before := f.Status()
		mu.Lock()
		now = next
		mu.Unlock()
		legacy.ForgetSessions()
		modern.BreakSubscriptions()
		for {
			reply, err := f.Call(t.Context(), toolCall("echo"))
			if err == nil && reply.Error == nil && f.Status().ProtocolVersion != before.ProtocolVersion {
				break
			}
			if t.Context().Err() != nil {
				t.Fatal(context.Cause(t.Context()))
			}
		}
		if got := f.Status(); i%2 == 0 != (got.ProtocolVersion == "2025-11-25") {
			t.Errorf("%+v", got)
		}
	}
}

// TestInvalidHeaderTools checks that tools whose headers are defined wrongly are left out,
// over HTTP only.
func TestInvalidHeaderTools(t *testing.T) {
	t.Parallel()
	sw := mcptest.ServerOptions{Eras: "modern", HeaderTools: true}
	p := newWebPeer(t, sw)
	f := launchWith(t, Spec{Name: "web", URL: p.url}, Options{}, fastTimings)
	if tools := <-f.tools; slices.Contains(tools, "misnamed") || !slices.Contains(tools, "region") {
		t.Error(tools)
	}
	if log := f.log.String(); !strings.Contains(log, "a tool was left out") || !strings.Contains(log, "misnamed") {
		t.Error(log)
	}
	region := wire.Call{Method: "tools/call", Params: []byte(`{"name":"region","arguments":{"region":"Zürich"}}`)}
	if reply, err := f.Call(t.Context(), region); err != nil || reply.Error != nil {
		t.Errorf("%s, %v", reply.Error, err)
	}
	p.SetRegionHeader("Area") // without a notification
	if reply, err := f.Call(t.Context(), region); err != nil || reply.Error != nil {
		t.Errorf("after a change: %s, %v", reply.Error, err)
	}
	over := launchPeer(t, sw, Spec{Restart: RestartNever, Protocol: "2026-07-28"}, Verdict{}, 0, fastTimings)
	if tools := <-over.tools; !slices.Contains(tools, "misnamed") {
		t.Error(tools)
	}
}

// TestListsAfterLostSubscription checks that the lists are read again when changes may have
// been missed, and that updates of resources are reported that may have been.
func TestListsAfterLostSubscription(t *testing.T) {
	t.Parallel()
	p := newWebPeer(t, mcptest.ServerOptions{Eras: "modern"})
	f := launchWith(t, Spec{Name: "web", URL: p.url}, Options{}, fastTimings)
	f.call(t, "echo")
	if reply, err := f.Call(t.Context(), wire.Call{Method: "resources/subscribe", Params: []byte(`{"uri":"f:1"}`)}); err != nil || reply.Error != nil {
		t.Fatalf("%s, %v", reply.Error, err)
	}
	from := p.Received.Len()
	p.BreakSubscriptions()
	if got := <-f.notes; got != `notifications/resources/updated{"uri":"f:1"}` {
		t.Error(got)
	}
	for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
		if _, _, err := p.Received.Find(t.Context(), method, from, mcptest.Method(method)); err != nil {
			t.Fatal(err)
		}
	}
}
