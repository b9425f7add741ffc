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

	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failed is an error of these tests.
type failed struct {
	reason string
	unsent bool
}

func (e failed) Error() string { return e.reason }

// makeErrors implements rpc.Errors.
type makeErrors struct{}

func (makeErrors) Down(reason string, _ error) error { return failed{reason: reason} }

func (makeErrors) Unsent(err error) error {
	var f failed
	if errors.As(err, &f) {
		return failed{f.reason, true}
	}
	return err
}

func (makeErrors) Unusable(method string, cause error) error {
	return failed{reason: method + ": " + cause.Error()}
}

func (makeErrors) Timeout(method string, _ time.Duration, _ bool) error {
	return failed{reason: method + ": timeout"}
}

// noHandler refuses what the server asks.
type noHandler struct{}

func (noHandler) Request(r *rpc.Request)      { r.Reply(wire.Reply{Result: []byte("{}")}) }
func (noHandler) Notification(_ wire.Inbound) {}

// serve starts a server that gives each message to handle, and a link to it that
// the test shuts down.
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
	l := New(client, link.Options{Handler: noHandler{}, Errors: makeErrors{}, SerialIDs: true})
	return l
}

func result(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

// TestWithdraw: a request that was taken back before its POST is never sent, and
// one that was sent says so.
func TestWithdraw(t *testing.T) {
	seen := make(chan string, 10)
	l := serve(t, func(w http.ResponseWriter, _ *http.Request, method string) {
		seen <- method
		result(w)
	})
	early := &post{link: l}
	if !early.Withdraw(1) || !early.TrySend(rpc.Frame{ID: 1, Data: []byte(`{"method":"early"}`)}) {
		t.Error("it was not taken over")
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
	if _, err := l.Call(t.Context(), wire.Call{Method: "tools/call"}); err != (failed{"connection closed", true}) {
		t.Errorf("after the end: %v", err)
	}
}

// permit is asked before a request is sent.
type permit func() error

func (p permit) Permitted() error { return p() }

// TestCancelledBeforeItIsSent: a server that cannot have seen a request gets no
// cancellation of it.
func TestCancelledBeforeItIsSent(t *testing.T) {
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

// TestFullLink: a call that finds no place is refused by Submit, and waits in Call.
func TestFullLink(t *testing.T) {
	l := serve(t, func(w http.ResponseWriter, _ *http.Request, _ string) { result(w) })
	for range maxPosts {
		l.slots <- struct{}{}
	}
	if _, err := l.Submit(wire.Call{Method: "a"}, rpc.Limit{}, nil); !errors.Is(err, rpc.ErrFull) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(time.Millisecond, func() { cancel(enough) })
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
