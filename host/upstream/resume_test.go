package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHTTPResume: the stream of a call that ends before the answer is resumed
// where it has event ids, however often.
func TestHTTPResume(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"note"}`
	for _, tt := range []struct {
		name  string
		first func(e eventWriter)
		again []func(w http.ResponseWriter, from string)
		want  string
		notes int
	}{
		{"broken off", func(e eventWriter) {
			e.raw("id: a\nretry: 0\ndata: %s\n\n", note)
			e.raw("id: b\ndata: half")
			panic(http.ErrAbortHandler)
		}, []func(http.ResponseWriter, string){func(w http.ResponseWriter, from string) {
			streamTo(w).raw("id: b\ndata: %s\n\nid: c\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"from\":%q}}\n\n", note, from)
		}}, `{"from":"a"}`, 2},
		{"polling", func(e eventWriter) { e.raw("id: p1\nretry: 1\ndata:\n\n") },
			[]func(http.ResponseWriter, string){
				func(w http.ResponseWriter, _ string) { streamTo(w) },
				func(w http.ResponseWriter, _ string) { streamTo(w).raw(": nothing yet\n\n") },
				func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusBadGateway) },
				func(w http.ResponseWriter, _ string) { streamTo(w).raw("id: p2\n\n") },
				func(w http.ResponseWriter, from string) {
					streamTo(w).raw("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"from\":%q}}\n\n", from)
				},
			}, `{"from":"p2"}`, 0},
		{"wrong id on the resumed stream", func(e eventWriter) { e.raw("id: 1\nretry: 1\n\n") },
			[]func(http.ResponseWriter, string){func(w http.ResponseWriter, _ string) {
				streamTo(w).raw("data: {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n")
			}}, `{}`, 0},
		{"no resumption", func(e eventWriter) { e.raw("id: 1\nretry: 1\n\n") },
			[]func(http.ResponseWriter, string){func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusMethodNotAllowed) }},
			"cannot be resumed: HTTP status 405", 0},
		{"lost session", func(e eventWriter) { e.raw("id: 1\nretry: 1\n\n") },
			[]func(http.ResponseWriter, string){func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) }},
			"forgotten our session before the answer", 0},
		{"no ids", func(e eventWriter) { e.raw("data: %s\n\n", note) }, nil, "ended before the answer", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, _ webMessage) { tt.first(streamTo(w)) })
			again := make(chan func(http.ResponseWriter, string), 10)
			for _, f := range tt.again {
				again <- f
			}
			s.get = func(w http.ResponseWriter, r *http.Request) {
				from := r.Header.Get("Last-Event-Id")
				if from == "" { // the listening stream
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				if r.Header.Get("Mcp-Session-Id") != "session-1" {
					t.Errorf("resumed with %v", r.Header)
				}
				(<-again)(w, from)
			}
			c := newCallbacks()
			l := dialWeb(t, s.httpSpec(), c)
			if got := outcomeOf(l.Call(t.Context(), callOf("a"))); !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if len(again) > 0 || len(c.notes) != tt.notes {
				t.Errorf("%d resumptions left, %d notifications, want %d", len(again), len(c.notes), tt.notes)
			}
		})
	}
}

// TestHTTPListen: the server's own stream is opened again, behind the last
// event, and a lost session shows there.
func TestHTTPListen(t *testing.T) {
	s := newWebServer(t, nil)
	gets := make(chan string, 10)
	step := 0
	s.get = func(w http.ResponseWriter, r *http.Request) {
		gets <- r.Header.Get("Last-Event-Id") + r.Header.Get("Accept")
		switch step++; step {
		case 1:
			e := streamTo(w)
			for i := range 5000 {
				fmt.Fprintf(e.w, "id: %d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"note\"}\n\n", i)
			}
			e.raw("retry: 1\n\n")
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			streamTo(w).send(`{"jsonrpc":"2.0","method":"last"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
	c := newCallbacks()
	l := dialWeb(t, s.httpSpec(), c)
	for i := range 5000 {
		if got := <-c.notes; got != "note[]" {
			t.Fatalf("notification %d is %s", i, got)
		}
	}
	if got := <-c.notes; got != "last[]" {
		t.Errorf("got %s", got)
	}
	<-l.Done()
	for _, want := range []string{"", "4999", "4999", "4999"} {
		if got := <-gets; got != want+"text/event-stream" {
			t.Errorf("opened behind %q, want %q", got, want)
		}
	}
}

// TestHTTPNoListening: a server without a stream of its own is asked once.
func TestHTTPNoListening(t *testing.T) {
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusNotFound, http.StatusNotImplemented, http.StatusBadRequest} {
		s := newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) { answer(w, m, "{}") })
		asked := make(chan struct{}, 10)
		s.get = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			asked <- struct{}{}
		}
		l := dialWeb(t, s.httpSpec(), newCallbacks())
		<-asked
		if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != "{}" {
			t.Errorf("status %d: %s", status, got)
		}
		l.Shutdown(time.Minute, nil)
		if len(asked) > 0 {
			t.Errorf("status %d: asked again", status)
		}
	}
}

// TestHTTPAnswerElsewhere: some servers accept a request and answer it on
// their own stream.
func TestHTTPAnswerElsewhere(t *testing.T) {
	own := make(chan eventWriter, 1)
	s := newWebServer(t, nil)
	s.get = func(w http.ResponseWriter, r *http.Request) {
		e := streamTo(w)
		e.send(`{"jsonrpc":"2.0","id":99,"result":{}}`) // nobody's
		own <- e
		<-r.Context().Done()
		<-own // nobody writes to it any more
	}
	s.handle = func(w http.ResponseWriter, _ *http.Request, m webMessage) {
		w.WriteHeader(http.StatusAccepted)
		e := <-own
		e.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s}}`, m.token())
		e.result(m, `{"late":1}`)
		own <- e
	}
	c := newCallbacks()
	l := dialWeb(t, s.httpSpec(), c)
	if got := <-c.garbage; !strings.Contains(got, "never made") {
		t.Errorf("garbage %q", got)
	}
	progress := 0
	call := callOf("a")
	call.Progress = func([]byte) { progress++ }
	if got := outcomeOf(l.Call(t.Context(), call)); got != `{"late":1}` || progress != 1 {
		t.Errorf("got %s after %d progress", got, progress)
	}
}
