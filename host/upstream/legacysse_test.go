package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// oldServer is a hand-written server over HTTP with SSE, for one session.
type oldServer struct {
	*httptest.Server
	endpoint string
	stream   chan eventWriter // holds the stream
	posted   chan webMessage  // what is no request
	handle   func(e eventWriter, m webMessage)
	// refuse tells the status of a POST that is not accepted; 0: it is.
	refuse func(m webMessage) int
	hangUp chan struct{}
	held   chan struct{} // holds up requests, response included, until two are received; nil: nothing
}

func newOldServer(t *testing.T, handle func(e eventWriter, m webMessage)) *oldServer {
	s := &oldServer{endpoint: "/post?session=1", handle: handle, stream: make(chan eventWriter, 1),
		posted: make(chan webMessage, 1000), hangUp: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/sse":
		e := streamTo(w)
		e.raw(": hello\n\nevent: endpoint\ndata: %s\n\n", s.endpoint)
		s.stream <- e
		select {
		case <-r.Context().Done():
		case <-s.hangUp:
		}
		<-s.stream
	case r.Method == http.MethodPost && r.URL.RequestURI() == "/post?session=1":
		body, _ := io.ReadAll(r.Body)
		m := webMessage{Body: string(body), Header: r.Header}
		_ = json.Unmarshal(body, &m.rawMessage)
		if s.refuse != nil {
			if status := s.refuse(m); status != 0 {
				http.Error(w, "not taken", status)
				return
			}
		}
		if s.held == nil {
			w.WriteHeader(http.StatusAccepted)
		}
		e := <-s.stream
		switch {
		case m.Method == "initialize":
			e.result(m, `{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`)
		case m.Method != "" && m.ID != nil && s.held != nil:
			s.stream <- e
			<-s.held
			<-s.held
			e = <-s.stream
			s.handle(e, m)
		case m.Method != "" && m.ID != nil:
			s.handle(e, m)
		case m.Method != "notifications/initialized":
			s.posted <- m
		}
		s.stream <- e
	default:
		http.NotFound(w, r)
	}
}

func (s *oldServer) sseSpec() Spec { return Spec{URL: s.URL + "/sse", Transport: TransportSSE} }

func TestSSECall(t *testing.T) {
	const n = 2000
	s := newOldServer(t, func(e eventWriter, m webMessage) {
		if m.Header.Get("X-Key") != "k" || m.Header.Get("Mcp-Protocol-Version") != "2024-11-05" {
			t.Errorf("headers %v", m.Header)
		}
		for i := range n {
			fmt.Fprintf(e.w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\ndata: \"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", m.token(), i)
		}
		e.result(m, `{"big":9007199254740993}`)
	})
	spec := s.sseSpec()
	spec.Headers = map[string]string{"X-Key": "k"}
	l := dialWeb(t, spec, newCallbacks())
	next := 0
	call := callOf("a")
	call.Progress = func(params []byte) {
		if raw, _ := wire.Get(params, "progress"); string(raw) != fmt.Sprint(next) {
			t.Errorf("progress %s where %d should be", raw, next)
		}
		next++
	}
	if got := outcomeOf(l.Call(t.Context(), call)); got != `{"big":9007199254740993}` || next != n {
		t.Errorf("got %s after %d", got, next)
	}
}

// TestSSEServerRequest: a request of the server with the id of ours is no answer.
func TestSSEServerRequest(t *testing.T) {
	s := newOldServer(t, func(e eventWriter, m webMessage) {
		e.send(`{"jsonrpc":"2.0","id":%s,"method":"roots/list"}`, m.ID)
		e.result(m, `{"ok":1}`)
	})
	c := newCallbacks()
	c.ask = func(_ context.Context, m wire.Inbound) wire.Reply {
		return wire.Reply{Result: []byte(`{"owners":` + fmt.Sprintf("%q", fmt.Sprint(m.Owners())) + `}`)}
	}
	l := dialWeb(t, s.sseSpec(), c)
	call := callOf("a")
	call.Owner = "me"
	if got := outcomeOf(l.Call(t.Context(), call)); got != `{"ok":1}` {
		t.Errorf("got %s", got)
	}
	if got := (<-s.posted).Body; got != `{"jsonrpc":"2.0","id":2,"result":{"owners":"[me]"}}` {
		t.Errorf("answered %s", got)
	}
}

func TestSSECancel(t *testing.T) {
	reached := make(chan struct{})
	s := newOldServer(t, func(eventWriter, webMessage) { close(reached) })
	l := dialWeb(t, s.sseSpec(), newCallbacks())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	if _, err := l.Call(ctx, callOf("a")); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	if got := (<-s.posted).Body; !strings.HasPrefix(got, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,`) {
		t.Errorf("server got %s", got)
	}
}

// TestSSEHeldPost: a server that responds to a POST only when it is done can
// still be told something meanwhile.
func TestSSEHeldPost(t *testing.T) {
	s := newOldServer(t, func(e eventWriter, m webMessage) { e.result(m, "{}") })
	s.held = make(chan struct{})
	l := dialWeb(t, s.sseSpec(), newCallbacks())
	got := make(chan string)
	go func() { got <- outcomeOf(l.Call(t.Context(), callOf("a"))) }()
	s.held <- struct{}{}
	if err := l.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
		t.Error(err)
	}
	if m := <-s.posted; m.Method != "notifications/roots/list_changed" {
		t.Errorf("posted %s", m.Body)
	}
	s.held <- struct{}{}
	if g := <-got; g != "{}" {
		t.Errorf("got %s", g)
	}
}

func TestSSEConcurrentCalls(t *testing.T) {
	s := newOldServer(t, func(e eventWriter, m webMessage) { e.result(m, string(m.Params)) })
	l := dialWeb(t, s.sseSpec(), newCallbacks())
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			want := fmt.Sprintf(`{"name":"%d"}`, i)
			if got := outcomeOf(l.Call(t.Context(), wire.Call{Method: "x", Params: []byte(want)})); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	wg.Wait()
}

func TestSSEFaults(t *testing.T) {
	refuse := func(status int) func(s *oldServer) {
		return func(s *oldServer) {
			s.refuse = func(m webMessage) int {
				if strings.Contains(m.Body, `"bad"`) {
					return status
				}
				return 0
			}
		}
	}
	for _, tt := range []struct {
		name   string
		set    func(s *oldServer)
		want   string
		ends   bool
		unsent bool
	}{
		{"too large", refuse(http.StatusRequestEntityTooLarge), "answer to tools/call: HTTP status 413", false, false},
		{"session gone", refuse(http.StatusNotFound), "forgotten our session", true, true},
		{"unauthorized", refuse(http.StatusUnauthorized), "not authorized", false, false},
		{"large answer", func(s *oldServer) {
			s.handle = func(e eventWriter, m webMessage) {
				if strings.Contains(m.Body, `"bad"`) {
					e.result(m, `"`+strings.Repeat("x", 100_000)+`"`)
					return
				}
				e.result(m, "{}")
			}
		}, "larger than 10000 bytes", false, false},
		{"stream ends", func(s *oldServer) { s.handle = func(eventWriter, webMessage) { close(s.hangUp) } }, "ended its event stream", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newOldServer(t, func(e eventWriter, m webMessage) { e.result(m, "{}") })
			tt.set(s)
			spec := s.sseSpec()
			spec.MaxMessage = 10_000
			l := dialWeb(t, spec, newCallbacks())
			_, err := l.Call(t.Context(), callOf("bad"))
			if err == nil || !strings.Contains(err.Error(), tt.want) || surelyUnsent(err) != tt.unsent {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if tt.ends {
				<-l.Done()
				return
			}
			if got := outcomeOf(l.Call(t.Context(), callOf("good"))); got != "{}" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

func TestSSEDialFailures(t *testing.T) {
	for _, tt := range []struct {
		name, endpoint, path, want string
	}{
		{"another server", "http://example.test/post", "/sse", "names another server, http://example.test"},
		{"another port", "http://127.0.0.1:1/post", "/sse", "names another server"},
		{"no URL", "http://[", "/sse", "no usable URL"},
		{"not found", "/post", "/nothing", "HTTP status 404"},
	} {
		s := newOldServer(t, nil)
		s.endpoint = tt.endpoint
		_, err := dialSpec(t.Context(), Spec{URL: s.URL + tt.path, Transport: TransportSSE}, newCallbacks())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		streamTo(w)
		<-r.Context().Done()
	}))
	defer silent.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errors.New("patience"))
	defer cancel()
	if _, err := dialSpec(ctx, Spec{URL: silent.URL, Transport: TransportSSE}, newCallbacks()); err == nil || err.Error() != "patience" {
		t.Errorf("silent server: %v", err)
	}
}

// TestFallback: without a transport in the configuration, a server of the
// first revision is recognized by how it refuses.
func TestFallback(t *testing.T) {
	s := newOldServer(t, func(e eventWriter, m webMessage) { e.result(m, `{"old":1}`) })
	l := dialWeb(t, Spec{URL: s.URL + "/sse"}, newCallbacks())
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"old":1}` {
		t.Errorf("got %s", got)
	}
	if l.Err() != nil {
		t.Errorf("it ended: %v", l.Err())
	}
	close(s.hangUp)
	<-l.Done()
	if l.Err() == nil {
		t.Error("it ended without an error")
	}

	n := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) { answer(w, m, `{"new":1}`) })
	l = dialWeb(t, Spec{URL: n.URL}, newCallbacks())
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"new":1}` {
		t.Errorf("got %s", got)
	}
}

func TestFallbackFails(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusNotFound:            "neither streamable HTTP (HTTP status 404 (Not Found)) nor HTTP with SSE",
		http.StatusForbidden:           "HTTP status 403",
		http.StatusInternalServerError: "HTTP status 500",
		http.StatusUnauthorized:        "not authorized",
	} {
		asked := make(chan string, 10)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.Method
			w.WriteHeader(status)
		}))
		l, err := dialSpec(t.Context(), Spec{Name: "web", URL: s.URL}, newCallbacks())
		if err != nil {
			t.Fatal(err)
		}
		_, err = Initialize(t.Context(), l, ClientParams{}.Params())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("status %d: got %v, want %s", status, err, want)
		}
		if gets := len(asked) - 1; (gets == 1) != (status == http.StatusNotFound) {
			t.Errorf("status %d: %d further requests", status, gets)
		}
		l.Shutdown(time.Minute, nil)
		s.Close()
	}
}
