// Package link says what an upstream needs of a connection with a server,
// whatever its transport, and what the connection gets from the upstream.
package link

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Link is one connection with a server. It lives from its start to its end or
// Shutdown and is never used again: a new one is made instead. It is safe for
// concurrent use, except that Shutdown is called once.
//
// Calls, progress, and what the server sends are handled by an rpc.Conn, which
// says what is guaranteed for them.
type Link interface {
	// Call makes a call and waits for its outcome; see rpc.Conn.Call. An error is
	// marked with rpc.Errors.Unsent only if the server has surely not acted on the
	// request.
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
	// CallWithin is Call with a limit.
	CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error)
	// Submit is CallWithin for a caller that does not wait; see rpc.Conn.Submit.
	Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error)
	// Notify sends a notification; params may be nil. Errors as for Call.
	Notify(ctx context.Context, method string, params []byte) error
	// Negotiated is told the revision that the server chose, once, after the
	// answer to initialize and before notifications/initialized is sent.
	Negotiated(revision protocol.Revision)
	// Done is closed when the link cannot be used any more and every call has its
	// outcome. A session that the server has forgotten is such an end too.
	Done() <-chan struct{}
	// Err says why the link ended, nil while Done is open. If it is marked with
	// rpc.Errors.Unsent, a new link is made without delay.
	Err() error
	// Shutdown ends the link and the server's session or process. Calls that wait
	// may still be answered for a moment. Between its steps it waits at most
	// grace, and not at all once kill is closed. When it returns, nothing is left:
	// no process, goroutine, socket, or running callback.
	Shutdown(grace time.Duration, kill <-chan struct{})
}

// Options are what a link gets from its upstream. Handler and Errors must be
// set.
type Options struct {
	// MaxMessage caps a message of the server, in bytes; 0:
	// wire.DefaultMaxMessage.
	MaxMessage int
	// Budget is what large messages of the server are taken from; nil: none.
	Budget *budget.Budget
	// Handler takes the server's requests and notifications.
	Handler rpc.Handler
	// Errors makes the errors of calls.
	Errors rpc.Errors
	// Unasked is told of bytes of the server that belong to no call in flight. It
	// may wait, which slows the reading down, until done is closed. Nil: such
	// bytes are free.
	Unasked func(bytes int, done <-chan struct{})
	// Garbage is rpc.Options.Garbage.
	Garbage func(reason string, raw []byte)
	// SerialIDs is rpc.Options.SerialIDs.
	SerialIDs bool
	// Log takes what happens to the link. Nil: nothing is logged.
	Log *slog.Logger
}

// Conn makes the connection of a link. done is closed when the server is gone.
func (o *Options) Conn(main rpc.Stream, done <-chan struct{}) *rpc.Conn {
	opts := rpc.Options{
		Peer: rpc.Server, Main: main, Handler: o.Handler, Errors: o.Errors, SerialIDs: o.SerialIDs,
		Garbage: o.Garbage, Log: o.Log,
	}
	if o.Unasked != nil {
		opts.Unasked = func(bytes int) { o.Unasked(bytes, done) }
	}
	return rpc.New(context.Background(), opts)
}

// Room is where large messages are counted until ctx ends.
func (o *Options) Room(ctx context.Context) *wire.Room {
	if o.Budget == nil {
		return nil
	}
	return &wire.Room{Context: ctx, Open: o.Budget.OpenAnswer}
}
