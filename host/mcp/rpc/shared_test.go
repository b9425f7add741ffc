package rpc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestSharedIDs checks that requests of several programs with the same id do not affect
// each other: each is answered on its own stream, a cancellation by id has no effect, and
// the end of a stream drops only its own request.
func TestSharedIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled := make(chan *Request, 3)
		c := New(t.Context(), Options{Peer: Client, Main: newFakeStream(1), SharedIDs: true, Handler: requestsTo(handled)})
		defer c.Close(wire.ErrClosed)
		streams := []*fakeStream{newFakeStream(1), newFakeStream(1), newFakeStream(1)}
		causes := make([]error, len(streams))
		for i, s := range streams {
			if !c.Receive([]byte(`{"jsonrpc":"2.0","id":1,"method":"m"}`), s) {
				t.Fatal("no answer will come")
			}
			r := <-handled
			r.OnCancel(func(cause error) { causes[i] = cause })
			defer r.Reply(wire.Reply{Result: []byte(`{}`)})
			if i == 2 {
				r.Reply(wire.Reply{Result: []byte(`{"third":true}`)})
			}
		}
		c.Receive([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`), nil)
		gone := errors.New("gone")
		c.Abandon(streams[0], gone)
		if !errors.Is(causes[0], gone) || causes[1] != nil || causes[2] != nil {
			t.Errorf("cancelled with %v", causes)
		}
		equal(t, "the third answer", string(streams[2].last), `{"jsonrpc":"2.0","id":1,"result":{"third":true}}`)
		equal(t, "the second answer", string(streams[1].last), "")
	})
}

// TestHandlesPing checks that the handler gets the pings it wants.
func TestHandlesPing(t *testing.T) {
	handled := make(chan *Request, 1)
	main := newFakeStream(1)
	c := New(t.Context(), Options{Peer: Client, Main: main, Handler: requestsTo(handled),
		HandlesPing: func(params []byte) bool { return params != nil }})
	defer c.Close(wire.ErrClosed)
	c.Receive([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), main)
	c.Receive([]byte(`{"jsonrpc":"2.0","id":2,"method":"ping","params":{}}`), main)
	r := <-handled
	equal(t, "id", string(r.ID), "2")
	r.Start(func(context.Context, *Request) wire.Reply { return wire.Reply{Result: []byte(`{}`)} })
}

// requestsTo is a Handler that passes requests on.
type requestsTo chan *Request

func (h requestsTo) Request(r *Request)        { h <- r }
func (requestsTo) Notification(m wire.Inbound) {}
