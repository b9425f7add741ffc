package legacysse

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

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLink returns a link that r observes.
func newLink(ctx context.Context, config httpclient.Config, r *linktest.Recorder) (*Link, error) {
	client, err := httpclient.New(config)
	if err != nil {
		return nil, err
	}
	return Dial(ctx, client, r.Options())
}

// dial returns a link after the handshake. The test shuts it down.
func dial(t *testing.T, config httpclient.Config, r *linktest.Recorder) *Link {
	t.Helper()
	l, err := newLink(t.Context(), config, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Shutdown(time.Minute, nil) })
	if err := linktest.Initialize(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCall(t *testing.T) {
	const n = 2000
	s := linktest.NewSSEServer(t, func(e linktest.EventWriter, m linktest.HTTPMessage) {
		if m.Header.Get("X-Key") != "k" || m.Header.Get("Mcp-Protocol-Version") != "2024-11-05" {
			t.Errorf("headers %v", m.Header)
		}
		for i := range n {
			fmt.Fprintf(e.Writer, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\ndata: \"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", m.ProgressToken(), i)
		}
		e.Result(m, `{"big":9007199254740993}`)
	})
	config := s.ClientConfig()
	config.Headers = map[string]string{"X-Key": "k"}
	l := dial(t, config, linktest.NewRecorder())
	next := 0
	call := linktest.ToolCall("a")
	call.Progress = func(params []byte) {
		if raw, _ := wire.Get(params, "progress"); string(raw) != fmt.Sprint(next) {
			t.Errorf("progress %s where %d should be", raw, next)
		}
		next++
	}
	if got := linktest.FormatOutcome(l.Call(t.Context(), call)); got != `{"big":9007199254740993}` || next != n {
		t.Errorf("got %s after %d", got, next)
	}
}

// TestServerRequest checks that a request of the server is not taken for an answer if it
// has the id of our request.
func TestServerRequest(t *testing.T) {
	s := linktest.NewSSEServer(t, func(e linktest.EventWriter, m linktest.HTTPMessage) {
		e.Send(`{"jsonrpc":"2.0","id":%s,"method":"roots/list"}`, m.ID)
		e.Result(m, `{"ok":1}`)
	})
	c := linktest.NewRecorder()
	c.OnRequest = func(_ context.Context, m wire.Inbound) wire.Reply {
		return wire.Reply{Result: []byte(`{"owners":` + fmt.Sprintf("%q", fmt.Sprint(m.Owners())) + `}`)}
	}
	l := dial(t, s.ClientConfig(), c)
	call := linktest.ToolCall("a")
	call.Owner = "me"
	if got := linktest.FormatOutcome(l.Call(t.Context(), call)); got != `{"ok":1}` {
		t.Errorf("got %s", got)
	}
	if got := (<-s.Posted).Body; got != `{"jsonrpc":"2.0","id":2,"result":{"owners":"[me]"}}` {
		t.Errorf("answered %s", got)
	}
}

func TestCancel(t *testing.T) {
	reached := make(chan struct{})
	s := linktest.NewSSEServer(t, func(linktest.EventWriter, linktest.HTTPMessage) { close(reached) })
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	if _, err := l.Call(ctx, linktest.ToolCall("a")); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	if got := (<-s.Posted).Body; !strings.HasPrefix(got, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,`) {
		t.Errorf("server got %s", got)
	}
}

// TestHeldPost checks that messages are posted while the server has not responded to an
// earlier POST.
func TestHeldPost(t *testing.T) {
	s := linktest.NewSSEServer(t, func(e linktest.EventWriter, m linktest.HTTPMessage) { e.Result(m, "{}") })
	s.Held = make(chan struct{})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	got := make(chan string)
	go func() { got <- linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))) }()
	s.Held <- struct{}{}
	if err := l.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
		t.Error(err)
	}
	if m := <-s.Posted; m.Method != "notifications/roots/list_changed" {
		t.Errorf("posted %s", m.Body)
	}
	s.Held <- struct{}{}
	if g := <-got; g != "{}" {
		t.Errorf("got %s", g)
	}
}

func TestConcurrentCalls(t *testing.T) {
	s := linktest.NewSSEServer(t, func(e linktest.EventWriter, m linktest.HTTPMessage) { e.Result(m, string(m.Params)) })
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			want := fmt.Sprintf(`{"name":"%d"}`, i)
			if got := linktest.FormatOutcome(l.Call(t.Context(), wire.Call{Method: "x", Params: []byte(want)})); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	wg.Wait()
}

func TestFaults(t *testing.T) {
	refuse := func(status int) func(s *linktest.SSEServer) {
		return func(s *linktest.SSEServer) {
			s.Refuse = func(m linktest.HTTPMessage) int {
				if strings.Contains(m.Body, `"bad"`) {
					return status
				}
				return 0
			}
		}
	}
	for _, tt := range []struct {
		name   string
		set    func(s *linktest.SSEServer)
		want   string
		ends   bool
		unsent bool
	}{
		{"too large", refuse(http.StatusRequestEntityTooLarge), "unusable: tools/call HTTP status 413", false, false},
		{"session gone", refuse(http.StatusNotFound), "forgotten our session", true, true},
		{"unauthorized", refuse(http.StatusUnauthorized), "not authorized", false, false},
		{"large answer", func(s *linktest.SSEServer) {
			s.Handle = func(e linktest.EventWriter, m linktest.HTTPMessage) {
				if strings.Contains(m.Body, `"bad"`) {
					e.Result(m, `"`+strings.Repeat("x", 100_000)+`"`)
					return
				}
				e.Result(m, "{}")
			}
		}, "larger than 10000 bytes", false, false},
		{"stream ends", func(s *linktest.SSEServer) {
			s.Handle = func(linktest.EventWriter, linktest.HTTPMessage) { close(s.HangUp) }
		}, "ended its event stream", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := linktest.NewSSEServer(t, func(e linktest.EventWriter, m linktest.HTTPMessage) { e.Result(m, "{}") })
			tt.set(s)
			r := linktest.NewRecorder()
			r.MaxMessage = 10_000
			l := dial(t, s.ClientConfig(), r)
			_, err := l.Call(t.Context(), linktest.ToolCall("bad"))
			if err == nil || !strings.Contains(err.Error(), tt.want) || linktest.Unsent(err) != tt.unsent {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if tt.ends {
				<-l.Done()
				return
			}
			if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("good"))); got != "{}" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

func TestDialFailures(t *testing.T) {
	for _, tt := range []struct {
		name, endpoint, path, want string
	}{
		{"another server", "http://example.test/post", "/sse", "names another server, http://example.test"},
		{"another port", "http://127.0.0.1:1/post", "/sse", "names another server"},
		{"no URL", "http://[", "/sse", "no usable URL"},
		{"not found", "/post", "/nothing", "HTTP status 404"},
	} {
		s := linktest.NewSSEServer(t, nil)
		s.Endpoint = tt.endpoint
		_, err := newLink(t.Context(), httpclient.Config{URL: s.URL + tt.path}, linktest.NewRecorder())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		linktest.StreamTo(w)
		<-r.Context().Done()
	}))
	defer silent.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), testenv.Quiet(10*time.Millisecond), errors.New("too slow"))
	defer cancel()
	if _, err := newLink(ctx, httpclient.Config{URL: silent.URL}, linktest.NewRecorder()); err == nil || err.Error() != "too slow" {
		t.Errorf("silent server: %v", err)
	}
}
