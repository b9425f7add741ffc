// Package link defines what an upstream needs of a connection with a server,
// whatever its transport, and what the connection gets from the upstream.
//
//	link.go       Link, Options
//	callbacks.go  Callbacks: an rpc.Handler made of functions
//	excerpt.go    Excerpt: text of a server for errors and logs
package link

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Link is one connection with a server. It is never used again after its end or
// Shutdown: a new one is made instead. It is safe for concurrent use, except that
// Shutdown is called once.
//
// An rpc.Conn handles calls, progress, and the server's messages; see there for
// what it guarantees.
type Link interface {
	// Call makes a call and waits for its outcome; see rpc.Conn.Call. An error is
	// marked with rpc.Errors.Unsent only if the server has certainly not acted on
	// the request.
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
	// CallWithin is Call with a limit.
	CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error)
	// Submit is CallWithin for a caller that does not wait; see rpc.Conn.Submit.
	Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error)
	// Notify sends a notification; params may be nil. Errors as for Call.
	Notify(ctx context.Context, method string, params []byte) error
	// Negotiated sets the revision that the server chose. It is called once, after
	// the answer to initialize and before notifications/initialized is sent.
	Negotiated(revision protocol.Revision)
	// Done is closed when the link cannot be used any more and every call has its
	// outcome. It is also closed when the server has forgotten the session.
	Done() <-chan struct{}
	// Err returns why the link ended, nil while Done is open. If the error is
	// marked with rpc.Errors.Unsent, a new link is made without delay.
	Err() error
	// Shutdown ends the link and the server's session or process. Pending calls
	// may still be answered for a moment. Between its steps it waits at most
	// grace, and not at all once kill is closed. When it returns, nothing is left:
	// no process, goroutine, socket, or running callback.
	Shutdown(grace time.Duration, kill <-chan struct{})
}

// Options are what a link gets from its upstream. Handler and Errors must be
// set.
type Options struct {
	// MaxMessage is the largest message that is accepted from the server, in
	// bytes; 0: wire.DefaultMaxMessage.
	MaxMessage int
	// Budget counts large messages of the server: while it is used up, nothing is
	// read. Nil: they are not counted.
	Budget *budget.Budget
	// Owner is the owner of the messages in Budget.
	Owner any
	// Handler handles the server's requests and notifications.
	Handler rpc.Handler
	// Errors makes the errors of calls.
	Errors rpc.Errors
	// Unsolicited is called with the number of bytes from the server that belong to no
	// call in flight. It may block until done is closed, so that the server is read
	// slowly. Nil: such bytes cost nothing.
	Unsolicited func(bytes int, done <-chan struct{})
	// Garbage is rpc.Options.Garbage.
	Garbage func(reason string, raw []byte)
	// SerialIDs is rpc.Options.SerialIDs.
	SerialIDs bool
	// Tracer is rpc.Options.Tracer.
	Tracer rpc.Tracer
	// Log gets what happens to the link. Nil: nothing is logged.
	Log *slog.Logger
}

// Conn makes the connection of a link. done is closed when Unsolicited must not block
// any more; nil: when the connection ends.
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
