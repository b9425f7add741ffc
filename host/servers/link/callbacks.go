package link

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Callbacks is an rpc.Handler made of functions.
type Callbacks struct {
	// OnNotification gets every notification except notifications/progress and
	// notifications/cancelled, on the goroutine that reads the stream, in the order of the stream.
	// Nil: they are ignored.
	OnNotification func(m wire.Inbound)
	// OnRequest answers the server's requests except ping. OnRequest may wait for people, and so
	// runs on a separate goroutine. The owners of m are the owners at the arrival of the request.
	// ctx ends with the connection (with the error of rpc.Errors.Down as the cause) or when the
	// server cancels the request (cause: *wire.CancelledError), and then nothing is answered. At
	// most rpc.DefaultMaxRequests run at a time; further requests are refused. Nil: every request
	// is answered with -32601.
	OnRequest func(ctx context.Context, m wire.Inbound) wire.Reply
}

var _ rpc.Handler = Callbacks{}

// Request implements rpc.Handler.
func (c Callbacks) Request(r *rpc.Request) {
	if c.OnRequest == nil {
		r.Reply(wire.Reply{Error: wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", Excerpt(r.Method)).Raw()})
		return
	}
	candidates := r.Candidates() // the candidates may differ by the time OnRequest asks
	r.Start(func(ctx context.Context, r *rpc.Request) wire.Reply {
		return c.OnRequest(ctx, wire.Inbound{Method: r.Method, Params: r.Params, Owners: candidates.Owners, Await: candidates.Await})
	})
}

// Notification implements rpc.Handler.
func (c Callbacks) Notification(m wire.Inbound) {
	if c.OnNotification != nil {
		c.OnNotification(m)
	}
}
