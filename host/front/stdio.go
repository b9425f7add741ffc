package front

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Serve runs the session over a byte stream of newline-delimited messages (MCP
// stdio transport) until r ends, the client stops reading, or the session's
// context ends. It returns once all work of the session has ended; nil means
// that the client hung up. Work that cannot end, since it waits for a client
// that neither reads nor goes away, is left behind after drainTime, and
// ErrStalled is in the error.
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
		waitFor(&s.workers, drainTime)
	}
	s.end(wire.ErrClosed)
	if !waitFor(&s.workers, stallTime) || !waitFor(&s.notifier, stallTime) {
		return errors.Join(err, ErrStalled)
	}
	return err
}

// ErrStalled says that a session was given up while its client did not read.
var ErrStalled = errors.New("the client does not read its messages; they are lost")

// After the end of input, requests that were not cancelled by it may take
// drainTime. Then everything is cancelled, and has stallTime to notice.
const (
	drainTime = time.Second
	stallTime = 500 * time.Millisecond
)

// waitFor tells whether g was done in time.
func waitFor(g *sync.WaitGroup, most time.Duration) bool {
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
