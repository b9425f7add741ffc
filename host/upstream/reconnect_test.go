package upstream

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestHTTPUpstreamRestart: a web server that dies fails the call that is under
// way at once, and is used again when it is back.
func TestHTTPUpstreamRestart(t *testing.T) {
	for _, listens := range []bool{false, true} { // the death shows on the server's own stream, or to the next call
		reached, listening := make(chan struct{}, 1), make(chan struct{}, 10)
		s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, m webMessage) {
			switch {
			case m.Method == "tools/list":
				answer(w, m, `{"tools":[{"name":"a"}]}`)
			case m.Header.Get("Mcp-Session-Id") == "session-1":
				reached <- struct{}{}
				<-r.Context().Done()
			default:
				answer(w, m, `{"back":1}`)
			}
		})
		if listens {
			s.get = func(w http.ResponseWriter, r *http.Request) {
				streamTo(w)
				listening <- struct{}{}
				<-r.Context().Done()
			}
		}
		spec := s.httpSpec()
		spec.Name = "web"
		f := launchWith(t, spec, Options{}, fastTimings)
		got := make(chan error)
		go func() {
			_, err := f.Call(t.Context(), callOf("a"))
			got <- err
		}()
		<-reached
		if listens {
			<-listening
		}
		address := s.Listener.Addr().String()
		s.CloseClientConnections()
		s.Close()
		var down *DownError
		if err := <-got; !errors.As(err, &down) || down.unsent {
			t.Errorf("the call under way: %v", err)
		}
		s.forget()
		s.restart(func(h *httptest.Server) {
			h.Listener.Close()
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			h.Listener = l
			h.Start()
		})
		var out string
		for out != `{"back":1}` { // until the upstream has noticed
			reply, err := f.Call(t.Context(), callOf("a"))
			out = outcomeOf(reply, err)
			if err != nil && !errors.As(err, &down) {
				t.Fatal(out)
			}
		}
	}
}
