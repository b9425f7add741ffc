package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// switchable is a wire.Permit that can be taken away.
type switchable struct {
	gone  atomic.Bool
	asked atomic.Int32
}

var errForbidden = errors.New("it is forbidden now")

func (s *switchable) Permitted() error {
	s.asked.Add(1)
	if s.gone.Load() {
		return errForbidden
	}
	return nil
}

func wantDenied(t *testing.T, err error) {
	t.Helper()
	var denied *wire.DeniedError
	if !errors.As(err, &denied) || denied.Err != errForbidden {
		t.Errorf("got %v, want that it is forbidden", err)
	}
}

// TestPermitIsAskedAtTheLastMoment: calls that wait for a server that does not
// read are not written once they are forbidden; others are.
func TestPermitIsAskedAtTheLastMoment(t *testing.T) {
	c, p := pair(t, ConnOptions{})
	halfway := call(t.Context(), c, "halfway", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`, nil)
	first, err := p.in.ReadByte()
	if err != nil {
		t.Fatal(err)
	}
	permit := &switchable{}
	const room = 64
	waiting := make(chan error, room+11)
	for range 10 { // taken over, at once
		if _, err := c.Submit(wire.Call{Method: "submitted", Permit: permit}, rpc.Limit{}, func(_ wire.Reply, rest wire.Continuation) {
			_, err := rest(context.Background())
			waiting <- err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range room + 1 { // some of them, the others wait for a place
		go func() {
			_, err := c.Call(t.Context(), wire.Call{Method: "waiting", Permit: permit})
			waiting <- err
		}()
	}
	permit.gone.Store(true)
	after := call(t.Context(), c, "after", "", nil)
	whole, err := wire.Parse([]byte(string(first) + p.line()))
	if err != nil || whole.Method != "halfway" {
		t.Fatalf("%s %v", whole.Method, err)
	}
	line := p.line()
	if !strings.Contains(line, `"after"`) {
		t.Errorf("the server got %s", line)
	}
	for range cap(waiting) {
		wantDenied(t, <-waiting)
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, whole.ID)
	m, err := wire.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	for _, done := range []<-chan answered{halfway, after} {
		if a := <-done; a.err != nil {
			t.Error(a.err)
		}
	}
}

// TestPermitOfHTTPIsAskedForEachAttempt: a request that the server sends
// elsewhere is not made again once it is forbidden.
func TestPermitOfHTTPIsAskedForEachAttempt(t *testing.T) {
	permit := &switchable{}
	calls := 0
	s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, _ webMessage) {
		calls++
		permit.gone.Store(true)
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	})
	l := dialWeb(t, s.httpSpec(), newCallbacks())
	_, err := l.Call(t.Context(), wire.Call{Method: "tools/call", Params: []byte(`{"name":"a"}`), Permit: permit})
	wantDenied(t, err)
	if n := permit.asked.Load(); n != 2 || calls != 1 {
		t.Errorf("asked %d times, %d calls", n, calls)
	}
	_, err = l.Call(t.Context(), wire.Call{Method: "tools/call", Params: []byte(`{"name":"a"}`), Permit: permit})
	wantDenied(t, err)
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}
