package front

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Serve runs the session over a byte stream of newline-delimited messages (MCP
// stdio transport) until r ends, the client stops reading, or the session's
// context ends. It returns once all work of the session has ended. nil means
// that the client hung up.
//
// A Read of r that is under way cannot be interrupted from outside unless r is
// an io.Closer whose Close does so: then Serve closes it and waits for the
// reader. Otherwise the reading goroutine ends with the process.
func (s *Session) Serve(r io.Reader) error {
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
		s.drain()
	}
	s.end(wire.ErrClosed)
	s.workers.Wait()
	s.notifier.Wait()
	return err
}

// drainTime bounds how long requests that are not cancelled by EOF may still
// take.
const drainTime = 2 * time.Second

func (s *Session) drain() {
	timer := time.AfterFunc(drainTime, func() { s.end(wire.ErrClosed) })
	defer timer.Stop()
	s.workers.Wait()
}
