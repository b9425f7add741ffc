package stdio

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// TestLateMessages checks that wire.Call.Late is called for what the server still sends
// for a cancelled call.
func TestLateMessages(t *testing.T) {
	c, p := pair(t, link.Options{})
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
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) // a second answer is garbage and belongs to no call
	again := call(t.Context(), c, "y", "", nil)
	p.line()
	p.send(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	<-again
	close(late)
	var got []string
	for what := range late {
		got = append(got, what)
	}
	if progress == 0 { // the first progress arrived after the cancellation
		got = got[1:]
	}
	if want := []string{"progress", "an answer"}; !slices.Equal(got, want) {
		t.Errorf("called for %q, want %q", got, want)
	}
}
