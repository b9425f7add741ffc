package stdio

import (
	"io"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/process"
)

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
