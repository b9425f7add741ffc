package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that passes each message to handle. It returns a link to the
// server, which the test must shut down.
func serve(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, method string)) *Link {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct{ Method string }
		_ = json.Unmarshal(body, &m)
		handle(w, r, m.Method)
	}))
	t.Cleanup(s.Close)
	client, err := httpclient.New(httpclient.Config{Name: "web", URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	l := New(client, link.Options{Handler: link.Callbacks{}, Errors: linktest.Errors{}, SerialIDs: true})
	return l
}

func result(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

// TestWithdraw checks that a request that was withdrawn before its POST is never
// sent.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	l := serve(t, func(w http.ResponseWriter, _ *http.Request, method string) {
		seen <- method
		result(w)
	})
	early := &post{link: l}
	if !early.Withdraw(1) || !early.TrySend(rpc.Frame{ID: 1, Data: []byte(`{"method":"early"}`)}) {
		t.Error("it was not withdrawn, or not accepted")
	}
	if len(l.slots) != 0 {
		t.Errorf("%d slots are taken", len(l.slots))
	}
	if _, err := l.Call(t.Context(), wire.Call{Method: "tools/call"}); err != nil {
		t.Error(err)
	}
	if got := <-seen; got != "tools/call" || len(seen) > 0 {
		t.Errorf("sent %s, and %d more", got, len(seen))
	}
	l.Shutdown(time.Minute, nil)
	_, err := l.Call(t.Context(), wire.Call{Method: "tools/call"})
	if down := linktest.As(err, linktest.Down); down == nil || down.Reason != "connection closed" || !down.Unsent {
		t.Errorf("after the end: %v", err)
	}
}

// permit is a wire.Permit made of a function.
type permit func() error

func (p permit) Permitted() error { return p() }

// TestCancelledBeforeItIsSent checks that a server that cannot have seen a request
// gets no cancellation of it.
func TestCancelledBeforeItIsSent(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	l := serve(t, func(w http.ResponseWriter, _ *http.Request, method string) {
		seen <- method
		result(w)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	asked, release, got := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	enough := errors.New("enough")
	go func() {
		_, err := l.Call(ctx, wire.Call{Method: "tools/call", Permit: permit(func() error {
			close(asked)
			<-release
			return errors.New("not allowed")
		})})
		got <- err
	}()
	<-asked
	cancel(enough)
	if err := <-got; err != enough {
		t.Errorf("got %v", err)
	}
	close(release)
	l.Shutdown(time.Minute, nil)
	if len(seen) > 0 {
		t.Errorf("the server got %s", <-seen)
	}
}

// TestFullLink checks that Submit refuses a call, and that Call waits, while a link has
// the largest number of calls in flight.
func TestFullLink(t *testing.T) {
	t.Parallel()
	l := serve(t, func(w http.ResponseWriter, _ *http.Request, _ string) { result(w) })
	for range maxPosts {
		l.slots <- struct{}{}
	}
	if _, err := l.Submit(wire.Call{Method: "a"}, rpc.Limit{}, nil); !errors.Is(err, rpc.ErrFull) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(testenv.Quiet(time.Millisecond), func() { cancel(enough) })
	if _, err := l.Call(ctx, wire.Call{Method: "b"}); err != enough {
		t.Errorf("got %v", err)
	}
	for range maxPosts {
		<-l.slots
	}
	if l.calls != 0 {
		t.Errorf("%d calls are counted", l.calls)
	}
	l.Shutdown(time.Minute, nil)
}

// TestPermitIsCheckedForEachAttempt checks that a request that the server redirects
// is not repeated once it is forbidden.
func TestPermitIsCheckedForEachAttempt(t *testing.T) {
	t.Parallel()
	permit := &linktest.Permit{}
	calls := 0
	l := serve(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		calls++
		permit.Withdrawn.Store(true)
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	})
	defer l.Shutdown(time.Minute, nil)
	call := wire.Call{Method: "tools/call", Params: []byte(`{"name":"a"}`), Permit: permit}
	if _, err := l.Call(t.Context(), call); !linktest.Denied(err) {
		t.Errorf("got %v, want linktest.ErrForbidden", err)
	}
	if n := permit.Asked.Load(); n != 2 || calls != 1 {
		t.Errorf("asked %d times, %d calls", n, calls)
	}
	if _, err := l.Call(t.Context(), call); !linktest.Denied(err) {
		t.Errorf("got %v, want that it is forbidden", err)
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}
