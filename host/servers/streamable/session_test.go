package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	reached, left := make(chan linktest.HTTPMessage), make(chan struct{})
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, r *http.Request, m linktest.HTTPMessage) {
		linktest.StreamTo(w)
		reached <- m
		<-r.Context().Done()
		left <- struct{}{}
	})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error)
	go func() {
		_, err := l.Call(ctx, linktest.ToolCall("a"))
		got <- err
	}()
	m := <-reached
	cause := &wire.CancelledError{Params: []byte(`{"requestId":"theirs","reason":"bored","_meta":{"a":1}}`)}
	cancel(cause)
	if err := <-got; err != cause {
		t.Errorf("got %v", err)
	}
	<-left
	n := <-s.Notified
	if want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"bored","_meta":{"a":1}}}`, m.ID); n.Body != want {
		t.Errorf("server got %s, want %s", n.Body, want)
	}
}

func TestCancelStorm(t *testing.T) {
	t.Parallel()
	const n = 200
	var calls sync.WaitGroup
	calls.Add(n)
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, r *http.Request, m linktest.HTTPMessage) {
		if strings.Contains(m.Body, "echo") {
			linktest.Answer(w, m, `{}`)
			return
		}
		calls.Done()
		<-r.Context().Done()
	})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := l.Call(ctx, linktest.ToolCall("a")); err != context.Canceled {
				t.Errorf("got %v", err)
			}
		})
	}
	calls.Wait()
	cancel()
	wg.Wait()
	ids := map[string]bool{}
	for range n {
		ids[string((<-s.Notified).Params)] = true
	}
	if len(ids) != n {
		t.Errorf("%d of %d calls were cancelled", len(ids), n)
	}
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("echo"))); got != "{}" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestOwners checks that messages on the stream of a call belong to that call alone, and
// messages on the GET stream to all calls in flight.
func TestOwners(t *testing.T) {
	t.Parallel()
	own, written := make(chan linktest.EventWriter), make(chan struct{})
	s := linktest.NewHTTPServer(t, nil)
	s.Get = func(w http.ResponseWriter, r *http.Request) {
		own <- linktest.StreamTo(w)
		<-r.Context().Done()
		<-written
	}
	defer close(written)
	streams, release := make(chan linktest.EventWriter), make(chan struct{})
	s.Handle = func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		e := linktest.StreamTo(w)
		streams <- e
		<-release
		e.Result(m, "{}")
	}
	c := linktest.NewRecorder()
	asked := make(chan string, 2)
	c.OnRequest = func(_ context.Context, m wire.Inbound) wire.Reply {
		asked <- fmt.Sprint(m.Method, m.Owners())
		return wire.Reply{Result: []byte("{}")}
	}
	l := dial(t, s.ClientConfig(), c)
	listening := <-own
	var wg sync.WaitGroup
	var calls []linktest.EventWriter
	for _, owner := range []string{"a", "b"} {
		wg.Go(func() {
			call := linktest.ToolCall("x")
			call.Owner = owner
			if got := linktest.FormatOutcome(l.Call(t.Context(), call)); got != "{}" {
				t.Errorf("got %s", got)
			}
		})
		calls = append(calls, <-streams)
	}
	for i, want := range []string{"[a]", "[b]"} {
		calls[i].Send(`{"jsonrpc":"2.0","method":"note"}`)
		if got := <-c.Notes; got != "note"+want {
			t.Errorf("got %s, want %s", got, want)
		}
		calls[i].Send(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		if got := <-asked; got != "roots/list"+want {
			t.Errorf("got %s, want %s", got, want)
		}
		<-s.Answered
	}
	listening.Send(`{"jsonrpc":"2.0","method":"note"}`)
	if got := <-c.Notes; got != "note[a b]" {
		t.Errorf("got %s", got)
	}
	close(release)
	wg.Wait()
	listening.Send(`{"jsonrpc":"2.0","method":"note"}`)
	if got := <-c.Notes; got != "note[]" {
		t.Errorf("got %s", got)
	}
}

func TestServerRequests(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, nil)
	s.Handle = func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		e := linktest.StreamTo(w)
		for _, tt := range []struct{ id, method, want string }{
			{string(m.ID), "sampling/createMessage", `,"result":{"method":"sampling/createMessage"}}`}, // a request, although the id is that of our own
			{`"2"`, "elicitation/create", `,"result":{"method":"elicitation/create"}}`},
			{`7.0`, "ping", `,"result":{}}`},
		} {
			e.Send(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, tt.id, tt.method)
			if got := (<-s.Answered).Body; got != `{"jsonrpc":"2.0","id":`+tt.id+tt.want {
				t.Errorf("answered %s", got)
			}
		}
		e.Send(`{"jsonrpc":"2.0","id":"w","method":"wait"}`)
		e.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w","reason":"r"}}`)
		e.Result(m, "{}")
	}
	c := linktest.NewRecorder()
	took := make(chan error, 1)
	c.OnRequest = func(ctx context.Context, m wire.Inbound) wire.Reply {
		if m.Method == "wait" {
			<-ctx.Done()
			took <- context.Cause(ctx)
		}
		return wire.Reply{Result: []byte(`{"method":"` + m.Method + `"}`)}
	}
	l := dial(t, s.ClientConfig(), c)
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != "{}" {
		t.Errorf("got %s", got)
	}
	var cancelled *wire.CancelledError
	if err := <-took; !errors.As(err, &cancelled) {
		t.Errorf("the cancelled request: %v", err)
	}
	l.Shutdown(time.Minute, nil)
	if len(s.Answered) > 0 {
		t.Errorf("a cancelled request was answered: %s", (<-s.Answered).Body)
	}
}

// TestBlockedCallback checks that a callback that does not return blocks only its own
// stream.
func TestBlockedCallback(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		e := linktest.StreamTo(w)
		if m.ProgressToken() != "" {
			e.Send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s}}`, m.ProgressToken())
		}
		e.Result(m, "{}")
	})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	blocked, release, got := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		call := linktest.ToolCall("a")
		call.Progress = func([]byte) { close(blocked); <-release }
		got <- linktest.FormatOutcome(l.Call(ctx, call))
	}()
	<-blocked
	for range 10 {
		if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("b"))); got != "{}" {
			t.Errorf("got %s", got)
		}
	}
	cancel()
	close(release)
	if g := <-got; g != "{}" && g != "error context canceled" {
		t.Errorf("got %s", g)
	}
}

func TestSessionLost(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, r *http.Request, m linktest.HTTPMessage) {
		if strings.Contains(m.Body, "echo") {
			linktest.Answer(w, m, "{}")
			return
		}
		close(reached)
		<-r.Context().Done()
	})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("echo"))); got != "{}" {
		t.Fatal(got)
	}
	other := make(chan error, 1)
	go func() {
		_, err := l.Call(t.Context(), linktest.ToolCall("hang"))
		other <- err
	}()
	<-reached
	s.Forget()
	_, err := l.Call(t.Context(), linktest.ToolCall("echo"))
	<-l.Done()
	if !linktest.Unsent(err) || !linktest.Unsent(l.Err()) {
		t.Errorf("got %v, link %v", err, l.Err())
	}
	if err := <-other; linktest.As(err, linktest.Down) == nil || linktest.Unsent(err) {
		t.Errorf("the other call: %v", err)
	}
}

// TestSessionLost400 checks that a lost session is detected although the server answers
// 400 and an error without an id, as many servers do.
func TestSessionLost400(t *testing.T) {
	t.Parallel()
	known := true
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		if m.Method == "ping" && known {
			linktest.Answer(w, m, "{}")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
	})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); !strings.HasPrefix(got, `refused {"code":-32000`) {
		t.Errorf("in a good session: %s", got)
	}
	known = false
	if _, err := l.Call(t.Context(), linktest.ToolCall("a")); !linktest.Unsent(err) {
		t.Errorf("in a lost session: %v", err)
	}
	<-l.Done()
}

// TestSessionLostInOtherWays checks that a new session is begun after two calls, and a ping, that were
// answered as servers answer which have forgotten a session, and that no call is made again. A
// server that answers a ping, or a call in between, has not.
func TestSessionLostInOtherWays(t *testing.T) {
	t.Parallel()
	const refused = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no such session"}}`
	for name, answer := range map[string]struct {
		status int
		body   string
		want   string // of the message
	}{
		"401 with text":     {401, "no session", "it answered HTTP status 401 (Unauthorized): no session"},
		"410":               {410, "", "HTTP status 410 (Gone)"},
		"500":               {500, "oops", "HTTP status 500 (Internal Server Error): oops"},
		"503 with an error": {503, refused, "HTTP status 503"},
		"400 with the id":   {400, refused, "no such session"},
		"200 with an error": {200, refused, "it answered with error -32000: no such session"},
	} {
		for _, test := range []string{"lost", "known to ping", "answers in between"} {
			t.Run(name+", "+test, func(t *testing.T) {
				t.Parallel()
				var lost atomic.Bool
				var calls atomic.Int32
				s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
					if m.Method == "tools/call" {
						calls.Add(1)
					}
					if !lost.Load() || m.Method == "ping" && test != "lost" {
						linktest.Answer(w, m, "{}")
						return
					}
					body := answer.body
					if body == refused {
						w.Header().Set("Content-Type", "application/json")
						body = fmt.Sprintf(refused, m.ID)
					}
					w.WriteHeader(answer.status)
					fmt.Fprint(w, body)
				})
				l := dial(t, s.ClientConfig(), linktest.NewRecorder())
				call := func() (string, error) {
					reply, err := l.Call(t.Context(), linktest.ToolCall("a"))
					return linktest.FormatOutcome(reply, err), err
				}
				if got, _ := call(); got != "{}" {
					t.Fatal(got)
				}
				lost.Store(true)
				if got, err := call(); got == "{}" || linktest.Unsent(err) || strings.Contains(got, "forgotten") || l.Err() != nil {
					t.Errorf("the first call: %s, link %v", got, l.Err())
				}
				if test == "answers in between" {
					lost.Store(false)
					_, _ = call()
					lost.Store(true)
				}
				before := calls.Load()
				got, err := call()
				if calls.Load() != before+1 {
					t.Error("the call was made again")
				}
				if test != "lost" {
					if linktest.Unsent(err) || strings.Contains(got, "forgotten") || l.Err() != nil {
						t.Errorf("the second call: %s, link %v", got, l.Err())
					}
					return
				}
				if linktest.Unsent(err) || !strings.Contains(got, answer.want) || !strings.Contains(got, "seems to have forgotten our session: a new one is begun") {
					t.Fatalf("the second call: %s", got)
				}
				<-l.Done()
				if !linktest.Unsent(l.Err()) { // a new link is made at once
					t.Errorf("the link: %v", l.Err())
				}
			})
		}
	}
}

func TestRedirectsWithinTheOrigin(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed, with %v", r.Header)
	}))
	defer elsewhere.Close()
	for _, tt := range []struct{ to, want string }{
		{"/mcp/", "{}"},
		{elsewhere.URL + "/mcp?token=x", "redirects to " + elsewhere.URL + "/mcp, which is not followed"},
		{"", "without a usable Location"},
	} {
		s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) { linktest.Answer(w, m, "{}") })
		h := s.Config.Handler
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" {
				w.Header().Set("Location", tt.to)
				w.WriteHeader(http.StatusTemporaryRedirect)
				return
			}
			h.ServeHTTP(w, r)
		})
		config := s.ClientConfig()
		config.Headers = map[string]string{"Authorization": "Bearer sesame"}
		l := newLink(t, config, linktest.NewRecorder())
		got := "{}"
		if err := linktest.Initialize(t.Context(), l); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("to %q: got %s, want %s", tt.to, got, tt.want)
		}
	}
}

func TestUnauthorized(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, _ linktest.HTTPMessage) {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
	})
	config := s.ClientConfig()
	config.Headers = map[string]string{"Authorization": "Bearer sesame"}
	c := linktest.NewRecorder()
	l := dial(t, config, c)
	_, err := l.Call(t.Context(), linktest.ToolCall("a"))
	var auth *httpclient.AuthError
	if !errors.As(err, &auth) || auth.OAuth || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
		t.Errorf("got %v", err)
	}
	if text := err.Error() + c.Logged(); strings.Contains(text, "sesame") {
		t.Errorf("the token is in %s", text)
	}
	if l.Err() != nil {
		t.Errorf("the link ended: %v", l.Err())
	}
}
