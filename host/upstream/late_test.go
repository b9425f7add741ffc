package upstream

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// TestLate tells a caller that has given up what the server sends all the same.
func TestLate(t *testing.T) {
	c, p := pair(t, ConnOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	late := make(chan string, 3)
	done := make(chan error, 1)
	progress := 0
	go func() {
		_, err := c.Call(ctx, wire.Call{
			Method: "x", Progress: func([]byte) { progress++ }, Late: func(what string) { late <- what },
		})
		done <- err
	}()
	p.line()
	p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
	cancel()
	if got := p.line(); !strings.Contains(got, "notifications/cancelled") {
		t.Fatalf("the server got %s", got)
	}
	<-done
	if progress > 1 {
		t.Errorf("progress came %d times", progress)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}`)
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) // a second one is garbage, and nobody's
	again := call(t.Context(), c, "y", "", nil)
	p.line()
	p.send(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	<-again
	close(late)
	var got []string
	for what := range late {
		got = append(got, what)
	}
	if progress == 0 { // it came when the call had been given up
		got = got[1:]
	}
	if want := []string{"progress", "an answer"}; !slices.Equal(got, want) {
		t.Errorf("told of %q, want %q", got, want)
	}
}
