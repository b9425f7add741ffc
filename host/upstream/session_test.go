package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

func TestHTTPCancel(t *testing.T) {
	reached, left := make(chan webMessage), make(chan struct{})
	s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, m webMessage) {
		streamTo(w)
		reached <- m
		<-r.Context().Done()
		left <- struct{}{}
	})
	l := dialWeb(t, s.httpSpec(), newCallbacks())
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error)
	go func() {
		_, err := l.Call(ctx, callOf("a"))
		got <- err
	}()
	m := <-reached
	cause := &wire.CancelledError{Params: []byte(`{"requestId":"theirs","reason":"bored","_meta":{"a":1}}`)}
	cancel(cause)
	if err := <-got; err != cause {
		t.Errorf("got %v", err)
	}
	<-left
	n := <-s.notified
	if want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"bored","_meta":{"a":1}}}`, m.ID); n.Body != want {
		t.Errorf("server got %s, want %s", n.Body, want)
	}
}

func TestHTTPCancelStorm(t *testing.T) {
	const n = 200
	var calls sync.WaitGroup
	calls.Add(n)
	s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, m webMessage) {
		if strings.Contains(m.Body, "echo") {
			answer(w, m, `{}`)
			return
		}
		calls.Done()
		<-r.Context().Done()
	})
	l := dialWeb(t, s.httpSpec(), newCallbacks())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := l.Call(ctx, callOf("a")); err != context.Canceled {
				t.Errorf("got %v", err)
			}
		})
	}
	calls.Wait()
	cancel()
	wg.Wait()
	ids := map[string]bool{}
	for range n {
		ids[string((<-s.notified).Params)] = true
	}
	if len(ids) != n {
		t.Errorf("%d calls taken back of %d", len(ids), n)
	}
	if got := outcomeOf(l.Call(t.Context(), callOf("echo"))); got != "{}" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestHTTPOwners: what comes on the stream of a call belongs to that alone, and
// what comes on the server's own stream to any call in flight.
func TestHTTPOwners(t *testing.T) {
	own, written := make(chan eventWriter), make(chan struct{})
	s := newWebServer(t, nil)
	s.get = func(w http.ResponseWriter, r *http.Request) {
		own <- streamTo(w)
		<-r.Context().Done()
		<-written
	}
	defer close(written)
	streams, release := make(chan eventWriter), make(chan struct{})
	s.handle = func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		e := streamTo(w)
		streams <- e
		<-release
		e.result(m, "{}")
	}
	c := newCallbacks()
	asked := make(chan string, 2)
	c.ask = func(_ context.Context, m wire.Inbound) wire.Reply {
		asked <- fmt.Sprint(m.Method, m.Owners())
		return wire.Reply{Result: []byte("{}")}
	}
	l := dialWeb(t, s.httpSpec(), c)
	listening := <-own
	var wg sync.WaitGroup
	var calls []eventWriter
	for _, owner := range []string{"a", "b"} {
		wg.Go(func() {
			call := callOf("x")
			call.Owner = owner
			if got := outcomeOf(l.Call(t.Context(), call)); got != "{}" {
				t.Errorf("got %s", got)
			}
		})
		calls = append(calls, <-streams)
	}
	for i, want := range []string{"[a]", "[b]"} {
		calls[i].send(`{"jsonrpc":"2.0","method":"note"}`)
		if got := <-c.notes; got != "note"+want {
			t.Errorf("got %s, want %s", got, want)
		}
		calls[i].send(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		if got := <-asked; got != "roots/list"+want {
			t.Errorf("got %s, want %s", got, want)
		}
		<-s.answered
	}
	listening.send(`{"jsonrpc":"2.0","method":"note"}`)
	if got := <-c.notes; got != "note[a b]" {
		t.Errorf("got %s", got)
	}
	close(release)
	wg.Wait()
	listening.send(`{"jsonrpc":"2.0","method":"note"}`)
	if got := <-c.notes; got != "note[]" {
		t.Errorf("got %s", got)
	}
}

func TestHTTPServerRequests(t *testing.T) {
	s := newWebServer(t, nil)
	s.handle = func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		e := streamTo(w)
		for _, tt := range []struct{ id, method, want string }{
			{string(m.ID), "sampling/createMessage", `,"result":{"method":"sampling/createMessage"}}`}, // our own id, and still a request
			{`"2"`, "elicitation/create", `,"result":{"method":"elicitation/create"}}`},
			{`7.0`, "ping", `,"result":{}}`},
		} {
			e.send(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, tt.id, tt.method)
			if got := (<-s.answered).Body; got != `{"jsonrpc":"2.0","id":`+tt.id+tt.want {
				t.Errorf("answered %s", got)
			}
		}
		e.send(`{"jsonrpc":"2.0","id":"w","method":"wait"}`)
		e.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w","reason":"r"}}`)
		e.result(m, "{}")
	}
	c := newCallbacks()
	took := make(chan error, 1)
	c.ask = func(ctx context.Context, m wire.Inbound) wire.Reply {
		if m.Method == "wait" {
			<-ctx.Done()
			took <- context.Cause(ctx)
		}
		return wire.Reply{Result: []byte(`{"method":"` + m.Method + `"}`)}
	}
	l := dialWeb(t, s.httpSpec(), c)
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != "{}" {
		t.Errorf("got %s", got)
	}
	var cancelled *wire.CancelledError
	if err := <-took; !errors.As(err, &cancelled) {
		t.Errorf("request taken back: %v", err)
	}
	l.Shutdown(time.Minute, nil)
	if len(s.answered) > 0 {
		t.Errorf("answered what was taken back: %s", (<-s.answered).Body)
	}
}

// TestHTTPBlockedCallback: a callback that does not return holds up its own
// stream and nothing else.
func TestHTTPBlockedCallback(t *testing.T) {
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		e := streamTo(w)
		if m.token() != "" {
			e.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s}}`, m.token())
		}
		e.result(m, "{}")
	})
	l := dialWeb(t, s.httpSpec(), newCallbacks())
	blocked, release, got := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		call := callOf("a")
		call.Progress = func([]byte) { close(blocked); <-release }
		got <- outcomeOf(l.Call(ctx, call))
	}()
	<-blocked
	for range 10 {
		if got := outcomeOf(l.Call(t.Context(), callOf("b"))); got != "{}" {
			t.Errorf("got %s", got)
		}
	}
	cancel()
	close(release)
	if g := <-got; g != "{}" && g != "error context canceled" {
		t.Errorf("got %s", g)
	}
}

func TestHTTPSessionLost(t *testing.T) {
	reached := make(chan struct{})
	s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, m webMessage) {
		if strings.Contains(m.Body, "echo") {
			answer(w, m, "{}")
			return
		}
		close(reached)
		<-r.Context().Done()
	})
	l := dialWeb(t, s.httpSpec(), newCallbacks())
	if got := outcomeOf(l.Call(t.Context(), callOf("echo"))); got != "{}" {
		t.Fatal(got)
	}
	other := make(chan error, 1)
	go func() {
		_, err := l.Call(t.Context(), callOf("hang"))
		other <- err
	}()
	<-reached
	s.forget()
	_, err := l.Call(t.Context(), callOf("echo"))
	<-l.Done()
	if !surelyUnsent(err) || !surelyUnsent(l.Err()) {
		t.Errorf("got %v, link %v", err, l.Err())
	}
	var down *DownError
	if err := <-other; !errors.As(err, &down) || down.unsent {
		t.Errorf("the other call: %v", err)
	}
}

// TestHTTPSessionLost400: many servers answer 400 where they do not know the
// session, and no id with it.
func TestHTTPSessionLost400(t *testing.T) {
	known := true
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		if m.Method == "ping" && known {
			answer(w, m, "{}")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
	})
	l := dialWeb(t, s.httpSpec(), newCallbacks())
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); !strings.HasPrefix(got, `refused {"code":-32000`) {
		t.Errorf("in a good session: %s", got)
	}
	known = false
	if _, err := l.Call(t.Context(), callOf("a")); !surelyUnsent(err) {
		t.Errorf("in a lost session: %v", err)
	}
	<-l.Done()
}

// TestHTTPUpstreamSessionLost: the whole upstream goes on in a new session, and
// the call that met the loss is answered.
func TestHTTPUpstreamSessionLost(t *testing.T) {
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		if m.Method == "tools/list" {
			answer(w, m, `{"tools":[{"name":"a"}]}`)
			return
		}
		answer(w, m, `{"session":"`+m.Header.Get("Mcp-Session-Id")+`"}`)
	})
	spec := s.httpSpec()
	spec.Name = "web"
	lists, hands := make(chan int, 10), make(chan []byte, 10)
	u := Start(spec, Options{
		OnList: func(l List) {
			if l.Surface == wire.Tools {
				lists <- len(l.Items)
			}
		},
		OnHandshake: func(result []byte) { hands <- result },
	})
	defer u.Close(t.Context())
	for _, want := range []string{"session-1", "session-2", "session-3"} {
		if got := outcomeOf(u.Call(t.Context(), callOf("a"))); got != `{"session":"`+want+`"}` {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := <-lists; n != 1 {
			t.Errorf("%d tools", n)
		}
		<-hands
		s.forget()
	}
}

func TestHTTPRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed, with %v", r.Header)
	}))
	defer elsewhere.Close()
	for _, tt := range []struct{ to, want string }{
		{"/mcp/", "{}"},
		{elsewhere.URL + "/mcp?token=x", "redirects to " + elsewhere.URL + "/mcp, which is not followed"},
		{"", "without a usable Location"},
	} {
		s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) { answer(w, m, "{}") })
		h := s.Config.Handler
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" {
				w.Header().Set("Location", tt.to)
				w.WriteHeader(http.StatusTemporaryRedirect)
				return
			}
			h.ServeHTTP(w, r)
		})
		spec := s.httpSpec()
		spec.Headers = map[string]string{"Authorization": "Bearer sesame"}
		l, err := dialSpec(t.Context(), spec, newCallbacks())
		if err != nil {
			t.Fatal(err)
		}
		_, err = Initialize(t.Context(), l, ClientParams{}.Params())
		got := "{}"
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("to %q: got %s, want %s", tt.to, got, tt.want)
		}
		l.Shutdown(time.Minute, nil)
	}
}

func TestHTTPUnauthorized(t *testing.T) {
	s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, _ webMessage) {
		http.Error(w, "who are you", http.StatusUnauthorized)
	})
	spec := s.httpSpec()
	spec.Headers = map[string]string{"Authorization": "Bearer sesame"}
	c := newCallbacks()
	l := dialWeb(t, spec, c)
	_, err := l.Call(t.Context(), callOf("a"))
	var auth *httpclient.AuthError
	if !errors.As(err, &auth) || auth.OAuth || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
		t.Errorf("got %v", err)
	}
	if text := err.Error() + c.logged(); strings.Contains(text, "sesame") {
		t.Errorf("the token is in %s", text)
	}
	if l.Err() != nil {
		t.Errorf("the link ended: %v", l.Err())
	}
}
