package servers

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestHTTPUpstreamRestart checks that the call in flight fails at once when an HTTP
// server ends, and that the server is used again after its restart.
func TestHTTPUpstreamRestart(t *testing.T) {
	t.Parallel()
	for _, listens := range []bool{false, true} { // the end is noticed by the next call, or on the GET stream
		reached, listening := make(chan struct{}, 1), make(chan struct{}, 10)
		s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, r *http.Request, m linktest.HTTPMessage) {
			switch {
			case m.Method == "tools/list":
				linktest.Answer(w, m, `{"tools":[{"name":"a"}]}`)
			case m.Header.Get("Mcp-Session-Id") == "session-1":
				reached <- struct{}{}
				<-r.Context().Done()
			default:
				linktest.Answer(w, m, `{"back":1}`)
			}
		})
		if listens {
			s.Get = func(w http.ResponseWriter, r *http.Request) {
				linktest.StreamTo(w)
				listening <- struct{}{}
				<-r.Context().Done()
			}
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.Port(t)))
		start := func(h *httptest.Server) {
			l, err := net.Listen("tcp", address)
			// A process that another test is starting may have the one of before.
			for end := time.Now().Add(testenv.Deadline(time.Minute)); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
				l, err = net.Listen("tcp", address)
			}
			if err != nil {
				t.Fatal(err)
			}
			h.Listener.Close()
			h.Listener = l
			h.Start()
		}
		s.Restart(start)
		f := launchWith(t, httpSpec(s), Options{}, fastTimings)
		got := make(chan error)
		go func() {
			_, err := f.Call(t.Context(), linktest.ToolCall("a"))
			got <- err
		}()
		<-reached
		if listens {
			<-listening
		}
		s.CloseClientConnections()
		s.Close()
		var down *DownError
		if err := <-got; !errors.As(err, &down) || down.unsent {
			t.Errorf("the call in flight: %v", err)
		}
		s.Forget()
		s.Restart(start)
		var out string
		for out != `{"back":1}` { // until the upstream has noticed
			reply, err := f.Call(t.Context(), linktest.ToolCall("a"))
			out = linktest.FormatOutcome(reply, err)
			if err != nil && !errors.As(err, &down) {
				t.Fatal(out)
			}
		}
	}
}
