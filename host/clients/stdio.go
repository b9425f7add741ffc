package clients

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// keepWorkers is the default of Options.KeepWorkers for stdio, which has a single session.
const keepWorkers = 64

// drainTime is the time that requests get after the end of input, if the end of input does not
// cancel them. Then they are cancelled.
const drainTime = time.Second

// ServeStdio runs a session over byte streams of newline-delimited messages (MCP stdio transport)
// until r ends, the client stops reading, or ctx ends. ServeStdio returns when all goroutines of
// the session have ended; nil means that the client closed the connection. If the client neither
// reads nor closes the connection, the goroutines waiting for the client are left behind, and the
// error wraps ErrStalled.
//
// A Read of r cannot be interrupted, unless r is an io.Closer with a Close that interrupts Read. In
// this case ServeStdio closes r and waits for the reading goroutine. Otherwise the reading
// goroutine ends with the process.
func ServeStdio(ctx context.Context, r io.Reader, w io.Writer, opts Options) error {
	if opts.KeepWorkers == 0 {
		opts.KeepWorkers = keepWorkers
	}
	if opts.Budget != nil {
		unread := opts.Budget.OpenUnread("stdio", 0)
		defer unread.Close()
		opts.memory = unread
	}
	out := &output{w: w}
	writer := rpc.NewWriter(out)
	s := NewSession(ctx, writer, opts)
	s.principal = stateless.New(ctx, opts.PrincipalOptions())
	out.session = s
	go writer.Run() // waited for below
	eof := make(chan error, 1)
	go func() {
		err := s.conn.ReadLines(r, opts.MaxMessage, s.readBudget())
		s.endOfInput()
		eof <- err
	}()
	var err error
	select {
	case err = <-eof:
	case <-s.Done():
		err = s.Err()
		if c, ok := r.(io.Closer); ok && c.Close() == nil {
			<-eof
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
		s.conn.Drain(drainTime)
	}
	err = errors.Join(err, s.Close())
	writer.Drain()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-writer.Done():
	case <-timer.C:
		if !errors.Is(err, ErrStalled) {
			err = errors.Join(err, ErrStalled)
		}
	}
	return err
}

// endOfInput cancels calls of tools and subscriptions without answers. Short requests, for example
// requests for lists, are still answered.
func (s *Session) endOfInput() {
	s.conn.Drop(ErrClientGone, func(r *rpc.Request) bool {
		return r.Method == protocol.MethodToolsCall || r.Method == protocol.MethodListen
	})
}

// readBudget returns the wire.ReadBudget in which large messages of the client are counted; nil if
// they are not counted.
func (s *Session) readBudget() *wire.ReadBudget {
	all := s.opts.Budget
	if all == nil {
		return nil
	}
	return &wire.ReadBudget{Context: s.conn.Context(), Most: all.LargestMessage(), Open: func() *budget.Hold { return all.OpenRequest(route.BudgetKey(s)) }}
}

// output is the io.Writer of a session. A failed write ends the session. The owner of w may use w
// again, so output does not close w.
type output struct {
	w       io.Writer
	session *Session
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.session.End(errors.Join(wire.ErrClosed, err)) // the client no longer reads
	}
	return n, err
}

// SyscallConn implements syscall.Conn, so that small answers need no goroutine; see rpc.Writer.
func (o *output) SyscallConn() (syscall.RawConn, error) {
	if file, ok := o.w.(syscall.Conn); ok {
		return file.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Close implements io.Closer.
func (o *output) Close() error { return nil }
