package front

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// ServeStdio runs a session over byte streams of newline-delimited messages
// (MCP stdio transport) until r ends, the client stops reading, or ctx ends. It
// returns once all work of the session has ended; nil means that the client
// hung up. Work that cannot end, since it waits for a client that neither
// reads nor goes away, is left behind after drainTime, and ErrStalled is in
// the error.
//
// A Read of r that is under way cannot be interrupted from outside unless r is
// an io.Closer whose Close does so: then ServeStdio closes it and waits for
// the reader. Otherwise the reading goroutine ends with the process.
func ServeStdio(ctx context.Context, r io.Reader, w io.Writer, opts Options) error {
	if opts.KeepWorkers == 0 {
		opts.KeepWorkers = keepWorkers
	}
	out := wire.NewWriter(w)
	s := NewSession(ctx, lines{out}, opts)
	closed := make(chan struct{})
	var posts sync.WaitGroup
	posts.Go(func() {
		if err := out.Run(closed); err != nil {
			s.written(s.main, err)
		}
	})
	eof := make(chan error, 1)
	go func() {
		err := s.read(r)
		s.hangUp()
		eof <- err
	}()
	var err error
	select {
	case err = <-eof:
	case <-s.ctx.Done():
		err = context.Cause(s.ctx)
		if c, ok := r.(io.Closer); ok && c.Close() == nil {
			<-eof
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
		waitFor(&s.workers, drainTime)
	}
	err = errors.Join(err, s.Close())
	close(closed)
	if !waitFor(&posts, stallTime) && !errors.Is(err, ErrStalled) {
		err = errors.Join(err, ErrStalled)
	}
	return err
}

// keepWorkers is the default of Options.KeepWorkers of the only session there is.
const keepWorkers = 64

// read handles messages from r until it ends.
func (s *Session) read(r io.Reader) error {
	in := wire.NewReader(r, s.opts.MaxMessage).Within(s.room())
	for {
		raw, err := in.Read()
		if err == nil {
			s.Receive(raw, s.main)
			continue
		}
		var large *wire.TooLargeError
		if !errors.As(err, &large) {
			return err
		}
		s.Reject(wire.Errorf(wire.CodeInvalidRequest, "invalid request: %v", err), s.main)
	}
}

// room is for large messages of the client; nil: there is no end of it.
func (s *Session) room() *wire.Room {
	all := s.opts.Budget
	if all == nil {
		return nil
	}
	return &wire.Room{Context: s.ctx, Open: func() *budget.Hold { return all.OpenRequest(route.Session(s)) }}
}

// ErrStalled says that a session was given up while its client did not read.
var ErrStalled = errors.New("the client does not read its messages; they are lost")

// After the end of input, requests that were not cancelled by it may take
// drainTime. Then everything is cancelled, and has stallTime to notice.
const (
	drainTime = time.Second
	stallTime = 500 * time.Millisecond
)
