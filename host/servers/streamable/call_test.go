package streamable

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

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

func TestCall(t *testing.T) {
	t.Parallel()
	var got linktest.HTTPMessage
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		got = m
		linktest.Answer(w, m, `{"n": 9007199254740993, "x":[ 1.0 ]}`)
	})
	config := s.ClientConfig()
	config.Headers = map[string]string{"X-Key": "secret", "host": "example.test"}
	l := dial(t, config, linktest.NewRecorder())
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
	if h := s.Initialize().Header; h.Get("Mcp-Session-Id")+h.Get("Mcp-Protocol-Version") != "" {
		t.Errorf("initialize had headers of a session: %v", h)
	}
}

func TestProgressInOrder(t *testing.T) {
	t.Parallel()
	const n = 2000
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		e := linktest.StreamTo(w)
		for i := range n {
			fmt.Fprintf(e.Writer, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", m.ProgressToken(), i)
		}
		e.Result(m, `{}`)
	})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	next := 0
	call := linktest.ToolCall("a")
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

func TestBurst(t *testing.T) {
	t.Parallel()
	const n = 5000
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		e := linktest.StreamTo(w)
		for i := range n {
			fmt.Fprintf(e.Writer, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%d}}\r\n\r\n", i)
		}
		e.Result(m, `{}`)
	})
	next := 0
	c := linktest.NewRecorder()
	c.OnNotification = func(m wire.Inbound) {
		if raw, _ := wire.Get(m.Params, "data"); string(raw) != strconv.Itoa(next) {
			t.Errorf("message %s where %d should be", raw, next)
		}
		if o := m.Owners(); len(o) != 1 || o[0] != "owner" {
			t.Errorf("owners %v", o)
		}
		next++
	}
	l := dial(t, s.ClientConfig(), c)
	call := linktest.ToolCall("a")
	call.Owner = "owner"
	if _, err := l.Call(t.Context(), call); err != nil || next != n {
		t.Errorf("%d of %d before the answer, %v", next, n, err)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":%s,"result":{}}]`, m.ID)
	})
	s.Revision = "2025-03-26"
	c := linktest.NewRecorder()
	l := dial(t, s.ClientConfig(), c)
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != "{}" || <-c.Notes != "notifications/x[]" {
		t.Errorf("got %s", got)
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
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
	c := linktest.NewRecorder()
	l := dial(t, s.ClientConfig(), c)
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != "{}" || len(c.Notes) != 3 {
		t.Errorf("got %s and %d notifications", got, len(c.Notes))
	}
}

func TestSlowBytes(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		e := linktest.StreamTo(w)
		for _, b := range []byte(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"ü\":1}}\r\n\r\n", m.ID)) {
			_, _ = w.Write([]byte{b})
			e.Flush()
		}
	})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != `{"ü":1}` {
		t.Errorf("got %s", got)
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, r *http.Request, m linktest.HTTPMessage) {
		linktest.Answer(w, m, strconv.Quote(r.Proto))
	})
	s.Restart(func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	})
	l := newLink(t, s.ClientConfig(), linktest.NewRecorder())
	l.client.Transport().TLSClientConfig = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if err := linktest.Initialize(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != `"HTTP/2.0"` {
				t.Errorf("got %s", got)
			}
		})
	}
	wg.Wait()
}

func TestServerIsNotReachable(t *testing.T) {
	t.Parallel()
	s := linktest.NewHTTPServer(t, nil)
	s.Server.Close()
	l := newLink(t, s.ClientConfig(), linktest.NewRecorder())
	_, err := l.Call(t.Context(), wire.Call{Method: "initialize"})
	if down := linktest.As(err, linktest.Down); down == nil || !down.Unsent || !strings.Contains(down.Reason, "cannot be reached") {
		t.Errorf("got %v", err)
	}
	<-l.Done()
	if err := l.Notify(context.Background(), "x", nil); !linktest.Unsent(err) {
		t.Errorf("notification after the end: %v", err)
	}
}

func TestCallsAtShutdown(t *testing.T) {
	t.Parallel()
	hold, reached := make(chan struct{}), make(chan struct{})
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, r *http.Request, m linktest.HTTPMessage) {
		reached <- struct{}{}
		select {
		case <-hold:
			linktest.Answer(w, m, `{}`)
		case <-r.Context().Done():
		}
	})
	for _, kill := range []bool{false, true} {
		l := dial(t, s.ClientConfig(), linktest.NewRecorder())
		got, over := make(chan string), make(chan struct{})
		go func() { got <- linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))) }()
		<-reached
		killed := make(chan struct{})
		go func() { l.Shutdown(time.Minute, killed); close(over) }()
		var err error
		for err == nil { // until it is closing
			err = l.Notify(t.Context(), "x", nil)
		}
		if !errors.Is(err, wire.ErrClosed) || !linktest.Unsent(err) {
			t.Errorf("notification at shutdown: %v", err)
		}
		want := "{}"
		if kill {
			close(killed)
			want = "error down: connection closed"
		} else {
			hold <- struct{}{}
		}
		if g := <-got; !strings.HasPrefix(g, want) {
			t.Errorf("kill %v: got %s, want %s", kill, g, want)
		}
		<-over
		if kill {
			continue
		}
		if h := <-s.Deleted; h.Get("Mcp-Session-Id") != "session-1" {
			t.Errorf("deleted with %v", h)
		}
	}
}

// TestCancellationDoesNotOvertake checks that a server gets the cancellation of a call only
// after it has begun to respond to the call, if it does so soon.
func TestCancellationDoesNotOvertake(t *testing.T) {
	t.Parallel()
	for _, soon := range []bool{true, false} {
		begun, respond, cancelled := make(chan struct{}), make(chan struct{}), make(chan struct{})
		l := serve(t, func(w http.ResponseWriter, r *http.Request, method string) {
			switch method {
			case "tools/call":
				close(begun)
				select {
				case <-respond:
				case <-r.Context().Done():
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done() // it is aborted then
			case "notifications/cancelled":
				close(cancelled)
			}
		})
		if soon {
			l.acceptTime = time.Hour // or a test that is slow takes it for late
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := l.Call(ctx, wire.Call{Method: "tools/call"})
			got <- err
		}()
		<-begun
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if soon {
			select {
			case <-cancelled:
				t.Error("the cancellation came first")
			case <-time.After(testenv.Quiet(20 * time.Millisecond)):
			}
			close(respond)
		}
		<-cancelled
		l.Shutdown(time.Minute, nil)
	}
}
