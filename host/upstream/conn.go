package upstream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
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
	// at the time it came in. ctx ends when the connection does (cause: *DownError) or when the
	// server takes the request back (cause: *wire.CancelledError), and then
	// nothing is answered. At most 128 run at a time; what the server asks
	// beyond that is refused. Default: everything is answered with -32601.
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
}

// Conn is one MCP client connection over a byte stream of newline-delimited
// JSON-RPC messages (stdio transport, revision 2025-11-25, basic/transports).
// It carries requests of ours to a server, and hands out what the server sends
// on its own account. It is safe for concurrent use.
type Conn struct {
	opts ConnOptions
	log  *slog.Logger
	r    io.ReadCloser
	out  *writer

	// ctx is the life of the connection: requests of the server run under it.
	ctx context.Context
	end context.CancelCauseFunc
	wg  sync.WaitGroup

	mu        sync.Mutex
	ids       ids
	pending   map[int64]*pending     // requests of ours that wait for their answer
	abandoned map[int64]func(string) // Late of requests of ours given up, whose answer may still come
	late      []given                // owners of those given up a moment ago, oldest first
	asked     map[string]*inbound    // requests of the server that are being answered
	closed    bool                   // Close was called
	watch     *time.Timer            // looks at the limits of calls that were begun; nil before the first
	watching  bool                   // it is set, or look is about to run
	err       error                  // why the stream ended; set before done is closed

	tasks   taskTokens
	current func() []any  // owners, made once
	garbage limiter       // owned by the read loop
	seen    atomic.Int64  // see heard
	batches atomic.Bool   // the negotiated revision has JSON-RPC batches
	serving chan struct{} // one token per running OnRequest
	answers chan struct{} // one token per request of the server until its answer is written
	done    chan struct{}
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
	c := &Conn{
		opts:      opts,
		log:       log,
		r:         r,
		ids:       newIDs(),
		pending:   make(map[int64]*pending),
		abandoned: make(map[int64]func(string)),
		asked:     make(map[string]*inbound),
		serving:   make(chan struct{}, maxServing),
		answers:   make(chan struct{}, maxAnswers),
		done:      make(chan struct{}),
	}
	c.out = newWriter(w, c.sent)
	c.current = c.owners
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.wg.Go(c.out.run)
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

// Done is closed when the stream has ended and every pending call has its
// error.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is a *DownError that says why the connection ended, or nil while it has
// not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection, fails pending calls, and waits for all of its
// goroutines, callbacks included. It returns nil, also when called again.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end(&DownError{Upstream: c.opts.Name, Reason: "connection closed", Err: wire.ErrClosed})
	c.out.close()
	c.r.Close()
	c.wg.Wait()
	return nil
}

// heard is twice the number of messages that came in, garbage included, and one
// more while one is worked on.
func (c *Conn) heard() int64 { return c.seen.Load() }

// closeWrite closes the stream to the server once what was handed to the
// writer is written, and lets the server's own messages come in to their end.
func (c *Conn) closeWrite() { c.out.finish() }

// ended is called by the read loop when nothing more can come.
func (c *Conn) ended(err error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	down := &DownError{Upstream: c.opts.Name}
	switch {
	case closed:
		down.Reason, down.Err = "connection closed", wire.ErrClosed
	case c.opts.describe != nil:
		down.Reason, down.Err = c.opts.describe(err), err
	case err == io.EOF:
		down.Reason, down.Err = "it closed its output", err
	default:
		down.Reason, down.Err = fmt.Sprintf("reading from it failed: %v", err), err
	}
	c.mu.Lock()
	c.err = down
	pending := c.pending
	c.pending = nil
	c.unwatch()
	c.mu.Unlock()
	for id, p := range pending {
		c.conclude(id, p, outcome{err: down})
	}
	c.end(down)
	c.out.close()
	c.r.Close()
	close(c.done)
}
