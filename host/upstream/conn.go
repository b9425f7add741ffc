package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// ConnOptions configure a Conn. The zero value works.
//
// The callbacks run on the connection's own goroutines, so they must not call
// Close. The connection reads nothing while OnNotification, OnGarbage or a
// progress callback runs: what comes in stays in order and nothing is queued.
// So these must not wait for an answer on the same connection either.
type ConnOptions struct {
	// Name of the peer for logs and errors; may be "".
	Name string
	// MaxMessage caps an incoming message in bytes; 0: wire.DefaultMaxMessage.
	// What is longer is skipped as garbage; see Call for answers.
	MaxMessage int
	// Budget is what large messages of the server are taken from: it is not read
	// while there is no room. Nil: they are not counted.
	Budget *budget.Budget
	// OnNotification takes every notification except notifications/progress
	// and notifications/cancelled, which go to the request they are about. It
	// runs on the read loop, in the order of the stream.
	OnNotification func(m wire.Inbound)
	// OnRequest answers requests of the server, except ping, which is always
	// answered {}. It runs on a goroutine of its own; the owners of m are those
	// at the time it came in. ctx ends when the connection does (cause:
	// *DownError) or when the server cancels the request (cause:
	// *wire.CancelledError), and then nothing is answered. At most 128 run at a
	// time; what the server asks beyond that is refused. Default: everything is
	// answered with -32601.
	OnRequest func(ctx context.Context, m wire.Inbound) wire.Reply
	// OnGarbage takes whatever is no usable message, on the read loop. reason
	// is for people; raw is clipped to 256 bytes. Default: nothing but the log.
	OnGarbage func(reason string, raw []byte)
	// Log takes garbage at warn level, at most 10 records in 10 seconds, and
	// what is merely late at debug. Default: nowhere.
	Log *slog.Logger

	// allowance is what the server may send that belongs to no call in flight; nil:
	// as much as it likes.
	allowance *allowance
	// ended, when closed, ends all waiting for the allowance: the server is gone,
	// and only what it has left behind is still to be read.
	ended <-chan struct{}
	// describe turns the end of the stream into the reason that callers are
	// told. It runs on the read loop, after the last message.
	describe func(err error) string
	// serialIDs is rpc.Options.SerialIDs, for tests.
	serialIDs bool
}

// Conn is one MCP client connection over a byte stream of newline-delimited
// JSON-RPC messages (stdio transport, revision 2025-11-25, basic/transports):
// an rpc.Conn, a goroutine that reads, and one that writes. It is safe for
// concurrent use.
type Conn struct {
	opts ConnOptions
	rpc  *rpc.Conn
	r    io.ReadCloser
	out  *rpc.Writer
	wg   sync.WaitGroup
}

// NewConn makes a connection that reads from r and writes to w, and starts its
// goroutines. It owns both; Close on them must unblock a Read or Write in
// progress, as it does for os.Pipe, io.Pipe and net.Conn. It ends when r does,
// or at Close.
func NewConn(r io.ReadCloser, w io.WriteCloser, opts ConnOptions) *Conn {
	return newConn(r, w, opts, logger(opts.Log, opts.Name))
}

// newConn is NewConn with the log for all that it has to say.
func newConn(r io.ReadCloser, w io.WriteCloser, opts ConnOptions, log *slog.Logger) *Conn {
	c := &Conn{opts: opts, r: r, out: rpc.NewWriter(w)}
	c.rpc = rpc.New(context.Background(), rpc.Options{
		Peer: rpc.Server, Main: c.out, Handler: c, Errors: callErrors(opts.Name), SerialIDs: opts.serialIDs,
		Unasked: c.unasked, Garbage: opts.OnGarbage, Log: log,
	})
	c.wg.Go(c.out.Run)
	c.wg.Go(c.read)
	return c
}

func logger(log *slog.Logger, name string) *slog.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if name != "" {
		log = log.With("upstream", name)
	}
	return log
}

// Call sends a request under an id of ours and waits for its answer, a result
// or a JSON-RPC error, as raw bytes that the caller owns; see rpc.Conn.Call.
// Everything in call.Params but the progress token goes out byte for byte,
// except that line breaks between tokens become spaces.
//
// Errors: the cause of ctx when that ends first; *DownError when the stream has
// ended or ends, *AnswerError, or *wire.RPCError when params._meta cannot hold a
// token; nothing is sent in that case. An answer larger than the cap fails its
// call at once if the id stands near the beginning or the end of the message, as
// it does with every known server; otherwise the call waits until ctx ends.
func (c *Conn) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return c.rpc.Call(ctx, rpc.Call{Call: call})
}

// Notify sends a notification; params may be nil. It returns when the message
// is sure to be written unless the stream breaks. Errors: *DownError, or the
// cause of ctx.
func (c *Conn) Notify(ctx context.Context, method string, params []byte) error {
	if err := c.rpc.Err(); err != nil {
		return notSent(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.rpc.Notify(ctx, nil, method, params)
}

// CallWithin is Call with a limit.
func (c *Conn) CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	return c.rpc.Call(ctx, rpc.Call{Call: call, Limit: limit})
}

// Submit is CallWithin for a caller that does not wait; see rpc.Conn.Submit.
func (c *Conn) Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	return c.rpc.Submit(rpc.Call{Call: call, Limit: limit}, complete)
}

// Done is closed when the stream has ended and every pending call has its
// error.
func (c *Conn) Done() <-chan struct{} { return c.rpc.Done() }

// Err is a *DownError that says why the connection ended, or nil while it has
// not.
func (c *Conn) Err() error { return c.rpc.Err() }

// Close ends the connection, fails pending calls, and waits for all of its
// goroutines, callbacks included. It returns nil, also when called again.
func (c *Conn) Close() error {
	closed := &DownError{Upstream: c.opts.Name, Reason: "connection closed", Err: wire.ErrClosed}
	c.rpc.End(closed)
	c.out.Close()
	c.r.Close()
	c.wg.Wait()
	c.rpc.Close(closed)
	return nil
}

// closeWrite closes the stream to the server once what was handed to the
// writer is written, and lets the server's own messages come in to their end.
func (c *Conn) closeWrite() { c.out.Drain() }

// Heard is a number that changes with each message that comes in, garbage
// included; it is odd while one is worked on.
func (c *Conn) Heard() int64 { return c.rpc.Heard() }

// Negotiated turns batches on, which only one revision has.
func (c *Conn) Negotiated(revision protocol.Revision) {
	c.rpc.SetBatches(revision.Has(protocol.Batches))
}

// read is the read loop.
func (c *Conn) read() {
	err := c.rpc.ReadLines(c.r, c.opts.MaxMessage, roomFor(c.rpc.Context(), c.opts.Budget))
	if c.rpc.Err() == nil {
		c.rpc.End(c.down(err))
	}
	c.out.Close()
	c.r.Close()
}

// down is why the stream ended.
func (c *Conn) down(err error) *DownError {
	down := &DownError{Upstream: c.opts.Name, Err: err}
	switch {
	case c.opts.describe != nil:
		down.Reason = c.opts.describe(err)
	case errors.Is(err, io.EOF):
		down.Reason = "it closed its output"
	default:
		down.Reason = fmt.Sprintf("reading from it failed: %v", err)
	}
	return down
}

// unasked makes the server pay for what belongs to no call in flight. It is on the
// read loop, which waits when the server has sent too much.
func (c *Conn) unasked(bytes int) {
	if c.opts.allowance != nil {
		c.opts.allowance.spend(bytes, c.rpc.Context().Done(), c.opts.ended)
	}
}

// Request implements rpc.Handler.
func (c *Conn) Request(r *rpc.Request) {
	if c.opts.OnRequest == nil {
		r.Reply(builtin(r.Method))
		return
	}
	answerWith(r, c.opts.OnRequest)
}

// Notification implements rpc.Handler.
func (c *Conn) Notification(m wire.Inbound) {
	if c.opts.OnNotification != nil {
		c.opts.OnNotification(m)
	}
}

// callErrors makes the errors of calls to the upstream of that name. It
// implements rpc.Errors.
type callErrors string

// Down implements rpc.Errors.
func (e callErrors) Down(reason string, cause error) error {
	return &DownError{Upstream: string(e), Reason: reason, Err: cause}
}

// Unsent implements rpc.Errors.
func (e callErrors) Unsent(err error) error { return notSent(err) }

// Unusable implements rpc.Errors.
func (e callErrors) Unusable(method string, cause error) error {
	return &AnswerError{Upstream: string(e), Method: method, Err: cause}
}

// Timeout implements rpc.Errors.
func (e callErrors) Timeout(method string, after time.Duration, max bool) error {
	return &TimeoutError{Upstream: string(e), Method: method, After: after, Max: max}
}

// builtin answers requests of a Conn without OnRequest.
func builtin(method string) wire.Reply {
	if method == protocol.MethodPing {
		return wire.Reply{Result: []byte("{}")}
	}
	return wire.Reply{Error: wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", clip(method)).Raw()}
}
