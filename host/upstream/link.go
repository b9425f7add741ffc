package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// link is one connection of an Upstream with its server: what the life of the
// upstream (life.go) needs of a transport. It lives from dial to its end or
// shutDown and is never used again: a new one is dialed instead. All of it is
// safe for concurrent use, except that shutDown is called once.
//
// What every link guarantees, as Conn does:
//
//   - Ids and progress tokens towards the server are ours (positive int64);
//     nothing of a message is changed but them.
//   - The raw params of progress notifications for a call reach
//     wire.Call.Progress one at a time, in order, and all of them that came
//     before the answer are handed over before Call returns; none after Call
//     has returned, unless the answer is a task that goes on (taskTokens).
//   - Callbacks get messages in the order of the stream that carried them, and
//     while one runs, that stream is not read: nothing is queued or dropped.
//   - Every request of the server is answered once, unless it took it back or
//     the link has ended; ping is answered by the link.
type link interface {
	// Call sends a request and waits for its answer, a result or a JSON-RPC
	// error, as raw bytes that the caller owns. See Conn.Call for Params and
	// Progress. When ctx ends first, it returns the cause of ctx without
	// waiting for the server, and the server gets notifications/cancelled with
	// the request's own id (wire.CancelParams), except for initialize.
	//
	// Other errors: *DownError when the link has ended or ends meanwhile, with
	// unsent set only if the server has surely not acted on the request;
	// *AnswerError for an answer that is of no use, after which the link lives
	// on; *wire.RPCError for params that cannot hold a token.
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
	// Notify sends a notification; params may be nil. Errors as for Call.
	Notify(ctx context.Context, method string, params []byte) error
	// negotiated is told the revision that the server chose, once, after the
	// answer to initialize and before notifications/initialized is sent.
	negotiated(revision protocol.Revision)
	// Done is closed when the link is of no use any more and every pending
	// call has its error or gets it right away. A session that the server has
	// forgotten is such an end too.
	Done() <-chan struct{}
	// Err is a *DownError that says why the link ended, nil while Done is open.
	// With unsent set in it the link is replaced without delay.
	Err() error
	// pid is that of the server's process, 0 where there is none.
	pid() int
	// stderrTail is the last lines of the server on stderr; nil for none.
	stderrTail() []string
	// shutDown ends the link and the server's session or process. Calls that
	// wait may still be answered for a moment. Between its steps it waits at
	// most grace, and not at all once kill is closed. When it returns, nothing
	// is left: no process, goroutine, socket, or callback that runs.
	shutDown(grace time.Duration, kill <-chan struct{})
}

// linkOptions are what a link gets from the life of its upstream. The callbacks
// run on goroutines of the link; none is nil.
type linkOptions struct {
	// log has the attribute "upstream" already.
	log *slog.Logger
	// budget is what large messages of the server are taken from; nil: none.
	budget *budget.Budget
	// onNotification takes every notification but progress and cancelled.
	onNotification func(m wire.Inbound)
	// onRequest answers requests of the server other than ping. It may wait
	// for people, so it runs on a goroutine of its own. ctx ends with the link
	// (cause: *DownError) or when the server takes the request back (cause:
	// *wire.CancelledError), and then nothing is answered. A link bounds how
	// many run at a time (maxServing).
	onRequest func(ctx context.Context, m wire.Inbound) wire.Reply
	// allowance is what the server may send that belongs to no call in flight, and
	// lines what it may write to stderr; nil: as much as it likes.
	allowance, lines *allowance
	// onGarbage takes what is no usable message, clipped to maxExcerpt.
	onGarbage func(reason string, raw []byte)
	// serialIDs is rpc.Options.SerialIDs, for tests.
	serialIDs bool
}

// dial starts or reaches the server of spec and returns a link that is ready
// for initialize. ctx is for dialing only. The error has no name of the
// upstream in it.
func dial(ctx context.Context, spec Spec, opts linkOptions) (link, error) {
	switch spec.transport() {
	case TransportStdio:
		return dialStdio(spec, opts)
	case TransportHTTP:
		return dialHTTP(ctx, spec, opts)
	case TransportSSE:
		return dialSSE(ctx, spec, opts)
	}
	return nil, fmt.Errorf("unknown transport %q (use %s, %s or %s)", spec.Transport, TransportStdio, TransportHTTP, TransportSSE)
}
