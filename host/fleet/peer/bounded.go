package peer

import (
	"net"
	"sync"
)

// bounded is a listener that has at most so many connections: others wait.
type bounded struct {
	net.Listener
	places chan struct{}
	done   chan struct{}
	close  func()
}

func newBounded(ln net.Listener, most int) *bounded {
	b := &bounded{Listener: ln, places: make(chan struct{}, most), done: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.done) })
	return b
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &boundedConn{Conn: conn, leave: sync.OnceFunc(func() { <-b.places })}, nil
}

// Close implements net.Listener.
func (b *bounded) Close() error {
	b.close()
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
