package servers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// TestFallback checks that without a configured transport, HTTP with SSE is used if the
// server refuses initialize like a server that supports only that.
func TestFallback(t *testing.T) {
	t.Parallel()
	s := linktest.NewSSEServer(t, func(e linktest.EventWriter, m linktest.HTTPMessage) { e.Result(m, `{"old":1}`) })
	l := dialWeb(t, Spec{URL: s.URL + "/sse"}, linktest.NewRecorder())
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != `{"old":1}` {
		t.Errorf("got %s", got)
	}
	if l.Err() != nil {
		t.Errorf("the link ended: %v", l.Err())
	}
	close(s.HangUp)
	<-l.Done()
	if l.Err() == nil {
		t.Error("the link ended without an error")
	}

	n := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		linktest.Answer(w, m, `{"new":1}`)
	})
	l = dialWeb(t, Spec{URL: n.URL}, linktest.NewRecorder())
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != `{"new":1}` {
		t.Errorf("got %s", got)
	}
}

func TestFallbackFails(t *testing.T) {
	t.Parallel()
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
		l, err := dialSpec(t.Context(), Spec{Name: "web", URL: s.URL}, linktest.NewRecorder())
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

// TestHTTPUpstreamSessionLost checks that an upstream continues in a new session when the
// server has forgotten the old one, and that the call that noticed it is answered.
func TestHTTPUpstreamSessionLost(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		if m.Method == "tools/list" {
			linktest.Answer(w, m, `{"tools":[{"name":"a"}]}`)
			return
		}
		linktest.Answer(w, m, `{"session":"`+m.Header.Get("Mcp-Session-Id")+`"}`)
	})
	lists, handshakes := make(chan int, 10), make(chan []byte, 10)
	u := Start(httpSpec(s), Options{
		OnList: func(l List) {
			if l.Surface == wire.Tools {
				lists <- len(l.Items)
			}
		},
		OnHandshake: func(result []byte) { handshakes <- result },
	})
	defer u.Close(t.Context())
	for _, want := range []string{"session-1", "session-2", "session-3"} {
		if got := linktest.FormatOutcome(u.Call(t.Context(), linktest.ToolCall("a"))); got != `{"session":"`+want+`"}` {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := <-lists; n != 1 {
			t.Errorf("%d tools", n)
		}
		<-handshakes
		s.Forget()
	}
}
