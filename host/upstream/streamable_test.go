package upstream

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

func TestHTTPCall(t *testing.T) {
	var got webMessage
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		got = m
		answer(w, m, `{"n": 9007199254740993, "x":[ 1.0 ]}`)
	})
	spec := s.httpSpec()
	spec.Headers = map[string]string{"X-Key": "secret", "host": "example.test"}
	l := dialWeb(t, spec, newCallbacks())
	reply, err := l.Call(t.Context(), wire.Call{Method: "tools/call",
		Params:   []byte(`{"name": "a","big":9007199254740993,"_meta":{"progressToken":"client's","k":1}}`),
		Progress: func([]byte) {}})
	if err != nil || string(reply.Result) != `{"n": 9007199254740993, "x":[ 1.0 ]}` {
		t.Errorf("got %s, %v", reply.Result, err)
	}
	if want := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name": "a","big":9007199254740993,"_meta":{"progressToken":2,"k":1}}}`; got.Body != want {
		t.Errorf("sent %s, want %s", got.Body, want)
	}
	for name, want := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "X-Key": "secret",
		"Mcp-Session-Id": "session-1", "Mcp-Protocol-Version": "2025-11-25", "Host": "",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("header %s is %q, want %q", name, v, want)
		}
	}
	if h := s.first.Header; h.Get("Mcp-Session-Id")+h.Get("Mcp-Protocol-Version") != "" {
		t.Errorf("initialize had headers of a session: %v", h)
	}
}

func TestHTTPProgressInOrder(t *testing.T) {
	const n = 2000
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		e := streamTo(w)
		for i := range n {
			fmt.Fprintf(e.w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", m.token(), i)
		}
		e.result(m, `{}`)
	})
	l := dialWeb(t, s.httpSpec(), newCallbacks())
	next := 0
	call := callOf("a")
	call.Progress = func(params []byte) {
		if raw, _ := wire.Get(params, "progress"); string(raw) != strconv.Itoa(next) {
			t.Errorf("progress %s where %d should be", raw, next)
		}
		next++
	}
	if _, err := l.Call(t.Context(), call); err != nil || next != n {
		t.Errorf("%d of %d before the answer, %v", next, n, err)
	}
}

func TestHTTPBurst(t *testing.T) {
	const n = 5000
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		e := streamTo(w)
		for i := range n {
			fmt.Fprintf(e.w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%d}}\r\n\r\n", i)
		}
		e.result(m, `{}`)
	})
	next := 0
	c := newCallbacks()
	c.notify = func(m wire.Inbound) {
		if raw, _ := wire.Get(m.Params, "data"); string(raw) != strconv.Itoa(next) {
			t.Errorf("message %s where %d should be", raw, next)
		}
		if o := m.Owners(); len(o) != 1 || o[0] != "owner" {
			t.Errorf("owners %v", o)
		}
		next++
	}
	l := dialWeb(t, s.httpSpec(), c)
	call := callOf("a")
	call.Owner = "owner"
	if _, err := l.Call(t.Context(), call); err != nil || next != n {
		t.Errorf("%d of %d before the answer, %v", next, n, err)
	}
}

// TestHTTPAnswers: what comes as the answer to request 2, and what of it is taken.
func TestHTTPAnswers(t *testing.T) {
	reply := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	events := func(data ...string) http.HandlerFunc {
		return reply(200, "text/event-stream; charset=utf-8", "data: "+strings.Join(data, "\n\ndata: ")+"\n\n")
	}
	const own = `{"jsonrpc":"2.0","id":2,"result":{"ok":1}}`
	long := `{"jsonrpc":"2.0","id":2,"result":"` + strings.Repeat("x", 5000) + `"}`
	const js = "application/json"
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // of the outcome, a part of it
		garbage string // reported, a part of it
	}{
		{"json", reply(200, "Application/JSON; charset=utf-8", own), `{"ok":1}`, ""},
		{"no content type", reply(200, "", own), `{"ok":1}`, ""},
		{"event", events(own), `{"ok":1}`, ""},
		{"named events", reply(200, "text/event-stream", "event: other\ndata: {}\n\nevent: message\ndata: "+own+"\n\n"), `{"ok":1}`, ""},
		{"json of another id", reply(200, js, `{"jsonrpc":"2.0","id":1,"result":{}}`), "answer to tools/call: there is none", "another request"},
		{"json of a textual id", reply(200, js, `{"jsonrpc":"2.0","id":"2","result":{}}`), "answer to tools/call: there is none", "another request"},
		{"event of another id, then the right one", events(`{"jsonrpc":"2.0","id":3,"result":{"bad":1}}`, own), `{"ok":1}`, "another request"},
		{"event of another id only", events(`{"jsonrpc":"2.0","id":3,"result":{}}`), "ended before the answer", "another request"},
		{"second answer", events(own, own), `{"ok":1}`, "second answer"},
		{"null id", reply(200, js, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`), `refused {"code":-32700,"message":"m"}`, ""},
		{"error of another id", reply(409, js, `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m"}}`), "HTTP status 409 (Conflict): {\"jsonrpc\"", ""},
		{"error with status", reply(422, js, `{"jsonrpc":"2.0","id":2,"error":{"code":-5,"message":"m","data":[1]}}`), `refused {"code":-5,"message":"m","data":[1]}`, ""},
		{"error without id", reply(500, js, `{"jsonrpc":"2.0","error":{"code":-5,"message":"m"}}`), `refused {"code":-5,"message":"m"}`, ""},
		{"error of Python", reply(406, js, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-5,"message":"m"}}`), `refused {"code":-5,"message":"m"}`, ""},
		{"unknown method", reply(404, js, `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"m"}}`), `refused {"code":-32601`, ""},
		{"text with status", reply(503, "text/html", "<h1>try\x07 later</h1>"), "answer to tools/call: HTTP status 503 (Service Unavailable): <h1>try", ""},
		{"json with status", reply(404, js, `{"error":"nothing"}`), "forgotten our session", ""},
		{"html", reply(200, "text/html", own), `content type is "text/html"`, ""},
		{"accepted", reply(202, "", ""), "HTTP status 202", ""},
		{"empty", reply(200, js, ""), "there is none", "parse error"},
		{"half json", reply(200, js, own[:20]), "there is none", "parse error"},
		{"half event", reply(200, "text/event-stream", "data: "+own+"\n"), "ended before the answer", ""},
		{"malformed for us", events(`{"jsonrpc":"2.0","id":2,"result":1,"error":{}}`), "exactly one of result and error", "exactly one"},
		{"malformed, then right", events(`{"jsonrpc"`, `[]`, own), `{"ok":1}`, "parse error"},
		{"large json", reply(200, js, long), "larger than 1000 bytes", "larger than"},
		{"large event", events(long), "larger than 1000 bytes", "larger than"},
		{"large other event", events(`{"jsonrpc":"2.0","method":"x","params":{"x":"`+strings.Repeat("x", 5000)+`"}}`, own), `{"ok":1}`, "larger than"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			streamTo(w).raw("data: {")
			panic(http.ErrAbortHandler)
		}, "ended before the answer", ""},
		{"no response", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "connection failed before the answer", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, _ webMessage) { tt.handler(w, r) })
			spec := s.httpSpec()
			spec.MaxMessage = 1000
			c := newCallbacks()
			l := dialWeb(t, spec, c)
			if got := outcomeOf(l.Call(t.Context(), callOf("a"))); !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if tt.garbage != "" {
				if got := <-c.garbage; !strings.Contains(got, tt.garbage) {
					t.Errorf("garbage %q, want %q", got, tt.garbage)
				}
			}
			l.Shutdown(time.Minute, nil)
			if len(c.garbage) > 1 || tt.garbage == "" && len(c.garbage) > 0 {
				t.Errorf("more garbage: %q", <-c.garbage)
			}
		})
	}
}

func TestHTTPBatch(t *testing.T) {
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":%s,"result":{}}]`, m.ID)
	})
	s.revision = "2025-03-26"
	c := newCallbacks()
	l := dialWeb(t, s.httpSpec(), c)
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != "{}" || <-c.notes != "notifications/x[]" {
		t.Errorf("got %s", got)
	}
}

func TestHTTPGzip(t *testing.T) {
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/event-stream")
		z := gzip.NewWriter(w)
		defer z.Close()
		for range 3 {
			fmt.Fprint(z, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
			z.Flush()
		}
		fmt.Fprintf(z, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", m.ID)
	})
	c := newCallbacks()
	l := dialWeb(t, s.httpSpec(), c)
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != "{}" || len(c.notes) != 3 {
		t.Errorf("got %s and %d notifications", got, len(c.notes))
	}
}

func TestHTTPSlowBytes(t *testing.T) {
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		e := streamTo(w)
		for _, b := range []byte(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"ü\":1}}\r\n\r\n", m.ID)) {
			_, _ = w.Write([]byte{b})
			e.flush()
		}
	})
	l := dialWeb(t, s.httpSpec(), newCallbacks())
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"ü":1}` {
		t.Errorf("got %s", got)
	}
}

func TestHTTP2(t *testing.T) {
	s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, m webMessage) {
		answer(w, m, strconv.Quote(r.Proto))
	})
	s.restart(func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	})
	spec := s.httpSpec()
	client, err := spec.client()
	if err != nil {
		t.Fatal(err)
	}
	l := streamable.New(client, newCallbacks().options(spec))
	defer l.Shutdown(time.Minute, nil)
	client.Transport().TLSClientConfig = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if _, err := Initialize(t.Context(), l, ClientParams{}.Params()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `"HTTP/2.0"` {
				t.Errorf("got %s", got)
			}
		})
	}
	wg.Wait()
}

func TestHTTPNotThere(t *testing.T) {
	s := newWebServer(t, nil)
	s.Server.Close()
	l, err := dialSpec(t.Context(), s.httpSpec(), newCallbacks())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Shutdown(time.Minute, nil)
	_, err = l.Call(t.Context(), wire.Call{Method: "initialize"})
	var down *DownError
	if !errors.As(err, &down) || !surelyUnsent(err) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("got %v", err)
	}
	<-l.Done()
	if err := l.Notify(context.Background(), "x", nil); !surelyUnsent(err) {
		t.Errorf("notification after the end: %v", err)
	}
}

func TestHTTPCallsAtShutdown(t *testing.T) {
	hold, reached := make(chan struct{}), make(chan struct{})
	s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, m webMessage) {
		reached <- struct{}{}
		select {
		case <-hold:
			answer(w, m, `{}`)
		case <-r.Context().Done():
		}
	})
	for _, kill := range []bool{false, true} {
		l := dialWeb(t, s.httpSpec(), newCallbacks())
		got, over := make(chan string), make(chan struct{})
		go func() { got <- outcomeOf(l.Call(t.Context(), callOf("a"))) }()
		<-reached
		killed := make(chan struct{})
		go func() { l.Shutdown(time.Minute, killed); close(over) }()
		var err error
		for err == nil { // until it is closing
			err = l.Notify(t.Context(), "x", nil)
		}
		if !errors.Is(err, wire.ErrClosed) || !surelyUnsent(err) {
			t.Errorf("notification at shutdown: %v", err)
		}
		want := "{}"
		if kill {
			close(killed)
			want = `error upstream "web": connection closed`
		} else {
			hold <- struct{}{}
		}
		if g := <-got; g != want {
			t.Errorf("kill %v: got %s, want %s", kill, g, want)
		}
		<-over
		if kill {
			continue
		}
		if h := <-s.deleted; h.Get("Mcp-Session-Id") != "session-1" {
			t.Errorf("deleted with %v", h)
		}
	}
}
