// Package link defines the connection of an upstream with a server, independently of the transport.
// Begin with Link and Options. Callbacks is an rpc.Handler made of functions.
package link

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Link is a connection with a server. A Link is never used again after the Link's end or Shutdown:
// a new Link is made instead. It is safe for concurrent use, except for Shutdown, which is called
// once.
//
// An rpc.Conn handles calls, progress, and the server's messages; see rpc.Conn for the guarantees.
type Link interface {
	// Call makes a call and waits for the outcome; see rpc.Conn.Call. An error is marked with
	// rpc.Errors.Unsent only if the server has certainly not acted on the request.
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
	// CallWithin is Call with a limit.
	CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error)
	// Submit is CallWithin for a caller that does not wait; see rpc.Conn.Submit.
	Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error)
	// Notify sends a notification; params may be nil. Errors as for Call.
	Notify(ctx context.Context, method string, params []byte) error
	// Negotiated sets the revision chosen by the server. Negotiated is called once, after the
	// answer to initialize and before notifications/initialized is sent.
	Negotiated(revision protocol.Revision)
	// Done is closed when the link is unusable and every call has an outcome, also after the server
	// has forgotten the session.
	Done() <-chan struct{}
	// Err returns why the link ended, nil while Done is open. If the error is
	// marked with rpc.Errors.Unsent, a new link is made without delay.
	Err() error
	// Shutdown ends the link and the server's session or process. Pending calls may still be
	// answered for a moment. Between the steps Shutdown waits at most grace, and not at all once
	// kill is closed. When Shutdown returns, nothing is left: no process, goroutine, socket, or
	// running callback.
	Shutdown(grace time.Duration, kill <-chan struct{})
}

// Options are the upstream's options for a link. Handler and Errors must be set.
type Options struct {
	// MaxMessage is the largest accepted message of the server, in bytes; 0:
	// wire.DefaultMaxMessage.
	MaxMessage int
	// Budget counts large messages of the server: while the Budget is used up, nothing is read.
	// Nil: they are not counted.
	Budget *budget.Budget
	// Owner is the owner of the messages in Budget.
	Owner any
	// Handler handles the server's requests and notifications.
	Handler rpc.Handler
	// Errors makes the errors of calls.
	Errors rpc.Errors
	// Unsolicited is called with the number of bytes from the server that belong to no call in
	// flight. Unsolicited may block until done is closed, so that the server is read slowly. Nil:
	// these bytes cost nothing.
	Unsolicited func(bytes int, done <-chan struct{})
	// Garbage is rpc.Options.Garbage.
	Garbage func(reason string, raw []byte)
	// SerialIDs is rpc.Options.SerialIDs.
	SerialIDs bool
	// Tracer is rpc.Options.Tracer.
	Tracer rpc.Tracer
	// Log gets the events of the link. Nil: nothing is logged.
	Log *slog.Logger
}

// Conn makes the connection of a link. done is closed when Unsolicited must no longer block; nil:
// when the connection ends.
func (o *Options) Conn(main rpc.Stream, done <-chan struct{}) *rpc.Conn {
	opts := rpc.Options{
		Peer: rpc.Server, Main: main, Handler: o.Handler, Errors: o.Errors, SerialIDs: o.SerialIDs,
		Garbage: o.Garbage, Tracer: o.Tracer, Log: o.Log,
	}
	var conn *rpc.Conn
	if o.Unsolicited != nil {
		opts.Unsolicited = func(bytes int) {
			if done == nil {
				o.Unsolicited(bytes, conn.Context().Done())
				return
			}
			o.Unsolicited(bytes, done)
		}
	}
	conn = rpc.New(context.Background(), opts)
	return conn
}

// ReadBudget returns where large messages are counted until ctx ends.
func (o *Options) ReadBudget(ctx context.Context) *wire.ReadBudget {
	if o.Budget == nil {
		return nil
	}
	return &wire.ReadBudget{Context: ctx, Most: o.Budget.LargestMessage(), Open: func() *budget.Hold { return o.Budget.OpenAnswer(o.Owner) }}
}

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

// Excerpt prepares text of a server for errors and logs: a line of at most 200 characters, without
// control characters.
func Excerpt(text string) string { return display.Line(text, 200) }
