// Package stdio is a connection with an MCP server over standard input and output (revision
// 2025-11-25, basic/transports, stdio). Begin with Conn, a connection over any pair of byte
// streams; Link is a Conn to a server process, Streams a Conn to any other server.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/process"
)

// Conn is a connection that exchanges newline-delimited JSON-RPC messages over byte streams. A Conn
// consists of an rpc.Conn, a goroutine that reads, and a goroutine that writes. It is safe for
// concurrent use.
type Conn struct {
	opts      link.Options
	rpc       *rpc.Conn
	r         io.ReadCloser
	out       *rpc.Writer
	endReason func(err error) string // says why the stream ended; runs on the read loop
	wg        sync.WaitGroup
}

// NewConn makes a connection that reads from r and writes to w, and starts the goroutines. The Conn
// owns r and w; their Close must unblock a Read or Write in progress, as os.Pipe, io.Pipe and
// net.Conn do. The connection ends with r, or at Close.
//
// The callbacks run on the connection's own goroutines, so they must not call Close. Nothing is
// read while a callback for a notification, for progress or for garbage runs, so that messages stay
// in order and none is queued. These callbacks must not wait for an answer on the same connection
// either.
func NewConn(r io.ReadCloser, w io.WriteCloser, opts link.Options) *Conn {
	return newConn(r, w, opts, nil, endReason)
}

// newConn is NewConn with the argument done of link.Options.Conn, and with a function that returns
// the reason for the end of the stream.
func newConn(r io.ReadCloser, w io.WriteCloser, opts link.Options, done <-chan struct{}, endReason func(err error) string) *Conn {
	c := &Conn{opts: opts, r: r, out: rpc.NewWriter(w), endReason: endReason}
	c.rpc = c.opts.Conn(c.out, done)
	c.wg.Go(c.out.Run)
	c.wg.Go(c.read)
	return c
}

// endReason describes why a stream without a process ended.
func endReason(err error) string {
	if errors.Is(err, io.EOF) {
		return "it closed its output"
	}
	return fmt.Sprintf("reading from it failed: %v", err)
}

// Call implements link.Link. Call waits for the answer, a result or a JSON-RPC error, and returns
// the answer as raw bytes owned by the caller. Everything in call.Params but the progress token is
// sent byte for byte, except that line breaks between tokens become spaces.
//
// Errors: the cause of ctx if ctx ends first; Errors.Down when the stream has ended or ends;
// Errors.Unusable; *wire.RPCError if params._meta cannot hold a token, and then nothing is sent. An
// answer larger than MaxMessage fails the call at once if the id is near the beginning or the end
// of the message, as with every known server; otherwise the call waits until ctx ends.
func (c *Conn) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return c.rpc.Call(ctx, rpc.Call{Call: call})
}

// CallWithin implements link.Link.
func (c *Conn) CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	return c.rpc.Call(ctx, rpc.Call{Call: call, Limit: limit})
}

// Submit implements link.Link.
func (c *Conn) Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	return c.rpc.Submit(rpc.Call{Call: call, Limit: limit}, complete)
}

// Notify implements link.Link. When Notify returns, the message will be written unless the stream
// breaks.
func (c *Conn) Notify(ctx context.Context, method string, params []byte) error {
	if err := c.rpc.Err(); err != nil {
		return c.opts.Errors.Unsent(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.rpc.Notify(ctx, nil, method, params)
}

// Negotiated implements link.Link. Negotiated turns batches on if the revision has batches.
func (c *Conn) Negotiated(revision protocol.Revision) {
	c.rpc.SetBatches(revision.Has(protocol.Batches))
}

// Done is closed when the stream has ended and every pending call has its
// error.
func (c *Conn) Done() <-chan struct{} { return c.rpc.Done() }

// Err returns the reason for the end of the connection, as an error of Errors.Down, or nil before
// the end.
func (c *Conn) Err() error { return c.rpc.Err() }

// Heard returns a number that changes with each message of the peer, garbage included. The number
// is odd while a message is being processed.
func (c *Conn) Heard() int64 { return c.rpc.Heard() }

// Close ends the connection, fails pending calls, and waits for all goroutines, callbacks included.
// Close returns nil, also when called again.
func (c *Conn) Close() error {
	closed := c.opts.Errors.Down("connection closed", wire.ErrClosed)
	c.rpc.End(closed)
	c.out.Close()
	c.r.Close()
	c.wg.Wait()
	c.rpc.Close(closed)
	return nil
}

// read is the read loop.
func (c *Conn) read() {
	err := c.rpc.ReadLines(c.r, c.opts.MaxMessage, c.opts.ReadBudget(c.rpc.Context()))
	if c.rpc.Err() == nil {
		c.rpc.End(c.opts.Errors.Down(c.endReason(err), err))
	}
	c.out.Close()
	c.r.Close()
}

var _ link.Link = (*Link)(nil)

// Link is a connection with a server in a subprocess; see link.Link.
type Link struct {
	*Conn
	process *process.Process

	wg   sync.WaitGroup
	done chan struct{}
	err  error // set before done is closed
}

// Start starts a server and returns a link to it.
func Start(command process.Command, processOpts process.Options, opts link.Options) (*Link, error) {
	p, err := process.Start(command, processOpts)
	if err != nil {
		return nil, err
	}
	l := &Link{process: p, done: make(chan struct{})}
	// After the exit of the process, the rest in the pipe is read without delay.
	l.Conn = newConn(p.Stdout(), p.Stdin(), opts, p.Exited(), p.EndReason)
	l.wg.Go(l.watch)
	return l, nil
}

// watch waits for the end of the stream in either direction. A server that no longer reads is of no
// use, even if the server still writes.
func (l *Link) watch() {
	defer close(l.done)
	select {
	case <-l.Conn.Done():
		l.err = l.Conn.Err()
	case <-l.out.Done():
		l.err = l.rpc.Unwritten()
	}
}

// Done implements link.Link.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err implements link.Link.
func (l *Link) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return l.Conn.Err()
	}
}

// Pid returns the process id of the server.
func (l *Link) Pid() int { return l.process.Pid() }

// StderrTail returns the last lines of the server's stderr.
func (l *Link) StderrTail() []string { return l.process.StderrTail() }

// Shutdown implements link.Link. Shutdown writes the queued messages, closes the server's standard
// input, and ends the process; see process.Process.Stop.
func (l *Link) Shutdown(grace time.Duration, kill <-chan struct{}) {
	l.out.Drain()
	l.process.Stop(grace, kill)
	<-l.Conn.Done() // after the last messages of the process
	l.Conn.Close()
	l.process.Release()
	l.wg.Wait()
}

// Streams is a connection with a server other than a process of ours; see link.Link.
type Streams struct{ *Conn }

var _ link.Link = Streams{}

// Connect returns a link to a server that writes to r and reads from w. r and w end with the link;
// see NewConn.
func Connect(r io.ReadCloser, w io.WriteCloser, opts link.Options) Streams {
	return Streams{NewConn(r, w, opts)}
}

// Shutdown implements link.Link. Shutdown writes the queued messages, closes w, and waits until the
// server has closed r.
func (s Streams) Shutdown(grace time.Duration, kill <-chan struct{}) {
	s.out.Drain()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-s.Conn.Done():
	case <-late.C:
	case <-kill:
	}
	s.Conn.Close()
}
