package legacysse

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// TestCancellationDoesNotOvertake checks that a call whose POST is slow does not reach the
// server after its cancellation.
func TestCancellationDoesNotOvertake(t *testing.T) {
	const large = 16 << 20 // more than the buffers of a connection hold
	s := linktest.NewSSEServer(t, func(linktest.EventWriter, linktest.HTTPMessage) {})
	began, cancelled, read := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	next := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < large {
			next.ServeHTTP(w, r)
			return
		}
		close(began)
		<-cancelled
		_, err := io.Copy(io.Discard, r.Body)
		read <- err
	})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	call := linktest.ToolCall("a")
	call.Params = []byte(`{"name":"a","arguments":{"x":"` + strings.Repeat("x", large) + `"}}`)
	if _, err := l.Call(ctx, call); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	if got := (<-s.Posted).Body; !strings.Contains(got, `"notifications/cancelled","params":{"requestId":2,`) {
		t.Errorf("server got %s", got)
	}
	close(cancelled)
	if err := <-read; err == nil {
		t.Error("the call has reached the server after its cancellation")
	}
	if l.Err() != nil {
		t.Errorf("the link has ended: %v", l.Err())
	}
}

// TestCancellationIsNotHeld checks that a server that responds to the POST of a call only when
// the call is done still gets its cancellation, and that nothing is left of the call.
func TestCancellationIsNotHeld(t *testing.T) {
	s := linktest.NewSSEServer(t, func(linktest.EventWriter, linktest.HTTPMessage) {})
	s.Held = make(chan struct{})
	l := dial(t, s.ClientConfig(), linktest.NewRecorder())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { s.Held <- struct{}{}; cancel() }()
	if _, err := l.Call(ctx, linktest.ToolCall("a")); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	if got := (<-s.Posted).Body; !strings.Contains(got, `"notifications/cancelled"`) {
		t.Errorf("server got %s", got)
	}
	s.Held <- struct{}{}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) > 0 {
		t.Errorf("%d calls are left", len(l.calls))
	}
}
