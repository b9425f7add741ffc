package stdio

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// owned makes a call with an owner and waits until the server has it.
func owned(ctx context.Context, c *Conn, p *peer, owner any) <-chan outcome {
	p.t.Helper()
	done := make(chan outcome, 1)
	go func() {
		reply, err := c.Call(ctx, wire.Call{Method: "m", Owner: owner})
		done <- outcome{reply, err}
	}()
	p.line()
	return done
}

func TestOwners(t *testing.T) {
	got := make(chan []any)
	leave := make(chan struct{})
	c, p := pair(t, link.Options{Handler: link.Callbacks{
		OnNotification: func(m wire.Inbound) { got <- m.Owners() },
		OnRequest: func(_ context.Context, m wire.Inbound) wire.Reply {
			<-leave
			got <- m.Owners()
			return wire.Reply{Result: []byte("{}")}
		},
	}})
	want := func(owners ...any) {
		t.Helper()
		p.send(`{"jsonrpc":"2.0","method":"notifications/message"}`)
		if got := <-got; !slices.Equal(got, owners) {
			t.Errorf("owners %v, want %v", got, owners)
		}
	}
	want()
	a := owned(t.Context(), c, p, "a")       // 1
	unowned := owned(t.Context(), c, p, nil) // 2
	ctx, cancel := context.WithCancel(t.Context())
	b := owned(ctx, c, p, "b")         // 3
	d := owned(t.Context(), c, p, "d") // 4
	want("a", "b", "d")
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	<-a
	want("b", "d")
	// A request keeps the owners that it had when it arrived.
	p.send(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
	want("b", "d") // the request has been read
	// What the server sends after a cancellation may still belong to that call.
	cancel()
	p.line()
	if a := <-b; !errors.Is(a.err, context.Canceled) {
		t.Error(a.err)
	}
	e := owned(t.Context(), c, p, "e") // 5
	want("b", "d", "e")
	p.send(`{"jsonrpc":"2.0","id":3,"result":{}}`) // late: nothing more will come for this call
	want("d", "e")
	close(leave)
	if got := <-got; !slices.Equal(got, []any{"b", "d"}) {
		t.Errorf("owners of the request: %v", got)
	}
	p.want(`{"jsonrpc":"2.0","id":"q","result":{}}`)
	for i, done := range []<-chan outcome{unowned, d, e} {
		p.send(`{"jsonrpc":"2.0","id":%d,"result":{}}`, []int{2, 4, 5}[i])
		<-done
	}
	want()
}
