package stdio

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

func wantDenied(t *testing.T, err error) {
	t.Helper()
	if !linktest.Denied(err) {
		t.Errorf("got %v, want linktest.ErrForbidden", err)
	}
}

// TestPermitIsCheckedBeforeWriting checks that calls that wait for a server that
// does not read are not written once they are forbidden, and that others are.
func TestPermitIsCheckedBeforeWriting(t *testing.T) {
	c, p := pair(t, link.Options{})
	halfway := call(t.Context(), c, "halfway", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`, nil)
	first, err := p.in.ReadByte()
	if err != nil {
		t.Fatal(err)
	}
	permit := &linktest.Permit{}
	const room = 64
	waiting := make(chan error, room+11)
	for range 10 { // these are queued at once
		if _, err := c.Submit(wire.Call{Method: "submitted", Permit: permit}, rpc.Limit{}, func(_ wire.Reply, next wire.Continuation) {
			_, err := next(context.Background())
			waiting <- err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range room + 1 { // some of these are queued, the others wait for room
		go func() {
			_, err := c.Call(t.Context(), wire.Call{Method: "waiting", Permit: permit})
			waiting <- err
		}()
	}
	permit.Withdrawn.Store(true)
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
	for _, done := range []<-chan outcome{halfway, after} {
		if a := <-done; a.err != nil {
			t.Error(a.err)
		}
	}
}
