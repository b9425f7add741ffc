package mcptest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"
)

// ServeStdio serves a client over newline-delimited messages until in ends or the server crashes.
// Then ServeStdio cancels the calls, waits for them, and closes in and out if they are io.Closers.
// After the faults StopReading and IgnoreShutdown, only Close lets ServeStdio return.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) {
	finish := func() {
		closeIt(out)
		closeIt(in)
	}
	lines := &lineStream{w: out, broken: func() { closeIt(out) }}
	session := s.newSession("", func(session *session) {
		session.general = lines
		session.broken = func() {
			if s.process {
				fmt.Fprintln(os.Stderr, "mcptest: told to crash")
				os.Exit(3)
			}
			finish()
		}
	})
	session.read(bufio.NewReaderSize(in, 64<<10), lines)
	session.close()
	session.work.Wait()
	finish()
}

func closeIt(v any) {
	if c, ok := v.(io.Closer); ok {
		_ = c.Close()
	}
}

// read handles lines until in ends.
func (s *session) read(r *bufio.Reader, out stream) {
	lines(r, func(line []byte) {
		s.received(s.srv.Received.add("stdio", line, nil), out)
		s.mu.Lock()
		stopped := s.stoppedReading
		s.mu.Unlock()
		if stopped {
			alive := time.AfterFunc(time.Hour, func() {}) // otherwise the runtime may report a deadlock
			<-s.ctx.Done()
			alive.Stop()
		}
	})
}
