package streamable

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// TestResume checks that the stream of a call that ends before the answer is resumed if
// it has event ids, as often as needed.
func TestResume(t *testing.T) {
	t.Parallel()
	const note = `{"jsonrpc":"2.0","method":"note"}`
	for _, tt := range []struct {
		name  string
		first func(e linktest.EventWriter)
		again []func(w http.ResponseWriter, from string)
		want  string
		notes int
	}{
		{"broken off", func(e linktest.EventWriter) {
			e.Raw("id: a\nretry: 0\ndata: %s\n\n", note)
			e.Raw("id: b\ndata: half")
			panic(http.ErrAbortHandler)
		}, []func(http.ResponseWriter, string){func(w http.ResponseWriter, from string) {
			linktest.StreamTo(w).Raw("id: b\ndata: %s\n\nid: c\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"from\":%q}}\n\n", note, from)
		}}, `{"from":"a"}`, 2},
		{"polling", func(e linktest.EventWriter) { e.Raw("id: p1\nretry: 1\ndata:\n\n") },
			[]func(http.ResponseWriter, string){
				func(w http.ResponseWriter, _ string) { linktest.StreamTo(w) },
				func(w http.ResponseWriter, _ string) { linktest.StreamTo(w).Raw(": nothing yet\n\n") },
				func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusBadGateway) },
				func(w http.ResponseWriter, _ string) { linktest.StreamTo(w).Raw("id: p2\n\n") },
				func(w http.ResponseWriter, from string) {
					linktest.StreamTo(w).Raw("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"from\":%q}}\n\n", from)
				},
			}, `{"from":"p2"}`, 0},
		{"wrong id on the resumed stream", func(e linktest.EventWriter) { e.Raw("id: 1\nretry: 1\n\n") },
			[]func(http.ResponseWriter, string){func(w http.ResponseWriter, _ string) {
				linktest.StreamTo(w).Raw("data: {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n")
			}}, `{}`, 0},
		{"no resumption", func(e linktest.EventWriter) { e.Raw("id: 1\nretry: 1\n\n") },
			[]func(http.ResponseWriter, string){func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusMethodNotAllowed) }},
			"cannot be resumed: HTTP status 405", 0},
		{"lost session", func(e linktest.EventWriter) { e.Raw("id: 1\nretry: 1\n\n") },
			[]func(http.ResponseWriter, string){func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) }},
			"forgotten our session before the answer", 0},
		{"no ids", func(e linktest.EventWriter) { e.Raw("data: %s\n\n", note) }, nil, "ended before the answer", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, _ linktest.HTTPMessage) { tt.first(linktest.StreamTo(w)) })
			again := make(chan func(http.ResponseWriter, string), 10)
			for _, f := range tt.again {
				again <- f
			}
			s.Get = func(w http.ResponseWriter, r *http.Request) {
				from := r.Header.Get("Last-Event-Id")
				if from == "" { // the GET stream
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				if r.Header.Get("Mcp-Session-Id") != "session-1" {
					t.Errorf("resumed with %v", r.Header)
				}
				(<-again)(w, from)
			}
			c := linktest.NewRecorder()
			l := dial(t, s.ClientConfig(), c)
			if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if len(again) > 0 || len(c.Notes) != tt.notes {
				t.Errorf("%d resumptions left, %d notifications, want %d", len(again), len(c.Notes), tt.notes)
			}
		})
	}
}

// TestGETStream checks that the GET stream is opened again after its last event, and that
// a lost session is noticed on it.
func TestGETStream(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, nil)
	gets := make(chan string, 10)
	step := 0
	s.Get = func(w http.ResponseWriter, r *http.Request) {
		gets <- r.Header.Get("Last-Event-Id") + r.Header.Get("Accept")
		switch step++; step {
		case 1:
			e := linktest.StreamTo(w)
			for i := range 5000 {
				fmt.Fprintf(e.Writer, "id: %d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"note\"}\n\n", i)
			}
			e.Raw("retry: 1\n\n")
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			linktest.StreamTo(w).Send(`{"jsonrpc":"2.0","method":"last"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
	c := linktest.NewRecorder()
	l := dial(t, s.ClientConfig(), c)
	for i := range 5000 {
		if got := <-c.Notes; got != "note[]" {
			t.Fatalf("notification %d is %s", i, got)
		}
	}
	if got := <-c.Notes; got != "last[]" {
		t.Errorf("got %s", got)
	}
	<-l.Done()
	for _, want := range []string{"", "4999", "4999", "4999"} {
		if got := <-gets; got != want+"text/event-stream" {
			t.Errorf("opened after %q, want %q", got, want)
		}
	}
}

// TestNoGETStream checks that a server that refuses the GET stream is asked for it once.
func TestNoGETStream(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusNotFound, http.StatusNotImplemented, http.StatusBadRequest} {
		s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) { linktest.Answer(w, m, "{}") })
		asked := make(chan struct{}, 10)
		s.Get = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			asked <- struct{}{}
		}
		l := dial(t, s.ClientConfig(), linktest.NewRecorder())
		<-asked
		if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != "{}" {
			t.Errorf("status %d: %s", status, got)
		}
		l.Shutdown(time.Minute, nil)
		if len(asked) > 0 {
			t.Errorf("status %d: asked again", status)
		}
	}
}

// TestAnswerOnGETStream checks that an answer is accepted on the GET stream if the server
// answers the POST with 202, as some servers do.
func TestAnswerOnGETStream(t *testing.T) {
	t.Parallel()
	own := make(chan linktest.EventWriter, 1)
	s := linktest.NewHTTPServer(t, nil)
	s.Get = func(w http.ResponseWriter, r *http.Request) {
		e := linktest.StreamTo(w)
		e.Send(`{"jsonrpc":"2.0","id":99,"result":{}}`) // of no call
		own <- e
		<-r.Context().Done()
		<-own // the test no longer writes to the stream
	}
	s.Handle = func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		w.WriteHeader(http.StatusAccepted)
		e := <-own
		e.Send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s}}`, m.ProgressToken())
		e.Result(m, `{"late":1}`)
		own <- e
	}
	c := linktest.NewRecorder()
	l := dial(t, s.ClientConfig(), c)
	if got := <-c.Garbage; !strings.Contains(got, "never made") {
		t.Errorf("garbage %q", got)
	}
	progress := 0
	call := linktest.ToolCall("a")
	call.Progress = func([]byte) { progress++ }
	if got := linktest.FormatOutcome(l.Call(t.Context(), call)); got != `{"late":1}` || progress != 1 {
		t.Errorf("got %s after %d progress", got, progress)
	}
}

// TestPostAfterAnswerOnGETStream checks that a POST ends soon after its answer came on
// the GET stream, if the server does not respond to the POST.
func TestPostAfterAnswerOnGETStream(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, responds bool) {
		own, ended := make(chan linktest.EventWriter, 1), make(chan struct{})
		s := linktest.NewHTTPServer(t, nil)
		s.Get = func(w http.ResponseWriter, r *http.Request) {
			e := linktest.StreamTo(w)
			e.Send(`{"jsonrpc":"2.0","method":"note"}`)
			own <- e
			<-r.Context().Done()
			<-own // the test no longer writes to the stream
		}
		s.Handle = func(w http.ResponseWriter, r *http.Request, m linktest.HTTPMessage) {
			if responds { // with a stream that stays empty
				linktest.StreamTo(w)
			}
			e := <-own
			e.Result(m, "{}")
			own <- e
			<-r.Context().Done()
			close(ended)
		}
		c := linktest.NewRecorder()
		l := dial(t, s.ClientConfig(), c)
		<-c.Notes // the stream is open
		if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != "{}" {
			t.Errorf("got %s", got)
		}
		<-ended
		l.Shutdown(time.Minute, nil)
		if len(l.slots) != 0 {
			t.Errorf("%d slots are taken", len(l.slots))
		}
	}
	t.Run("no response", func(t *testing.T) { t.Parallel(); test(t, false) })
	t.Run("an empty stream", func(t *testing.T) { t.Parallel(); test(t, true) })
}
