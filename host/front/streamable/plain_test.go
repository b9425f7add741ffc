package streamable

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/front"
)

// body posts a message and returns the answer as it is on the wire.
func (g *guest) body(msg string, header ...string) (kind, text string) {
	g.t.Helper()
	res := g.post(msg, header...)
	return res.Header.Get("Content-Type"), read(g.t, res)
}

// TestWithoutResumption has streams that nobody can come back to: their events
// have no ids, and the first disconnect is the last.
func TestWithoutResumption(t *testing.T) {
	w := newWeb(t, Options{ResumeWindow: -1})
	g := w.join("2025-11-25")
	kind, got := g.body(callOf(7, "count", `{"times":1}`))
	want := "retry: 1000\n\nevent: message\ndata: " + progressOf(7, 1) +
		"\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"
	if kind != "text/event-stream" || got != want {
		t.Errorf("%s\n%s\nwant\n%s", kind, got, want)
	}
	e := g.stream("POST", callOf(2, "ask", `{"method":"roots/list"}`))
	e.next()
	e.cancel()
	if err := <-w.backend.Cancelled; !errors.Is(err, front.ErrClientGone) {
		t.Errorf("cancelled with %v", err)
	}
}

// TestAcceptOrder has clients that name event streams first, and get one.
func TestAcceptOrder(t *testing.T) {
	w := newWeb(t, Options{})
	g := w.join("2025-11-25")
	for accept, want := range map[string]string{
		"application/json, text/event-stream":       "application/json",
		"Text/Event-Stream, application/json;q=0.5": "text/event-stream",
		"*/*": "application/json",
	} {
		kind, got := g.body(callOf(7, "count", `{"times":0}`), "Accept", accept)
		if kind != want || !strings.Contains(got, `{"jsonrpc":"2.0","id":7,"result":{}}`) {
			t.Errorf("%s: %s\n%s", accept, kind, got)
		}
	}
}
