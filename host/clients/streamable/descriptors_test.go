package streamable

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
)

// TestAffordable checks how many connections are left when files and servers have theirs.
func TestAffordable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ most, files, servers, want int }{
		{4096, 0, 10, 4096}, // no limit
		{4096, 1 << 20, 10, 4096},
		{4096, 1024, 0, 768},
		{100, 1024, 0, 100},
		{4096, 1024, 50, 1024 - 64 - 400},
		{4096, 1024, 1000, 256},
		{4096, 256, 1, 256 - 72},
		{4096, 4, 1, 1},
	} {
		if got := affordable(c.most, c.files, c.servers); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// shortListener has no descriptor until so many connections are closed.
type shortListener struct {
	net.Listener
	opened []*addressed
	needed int
}

func (l *shortListener) Accept() (net.Conn, error) {
	closed := 0
	for _, c := range l.opened {
		if c.closed {
			closed++
		}
	}
	if closed < l.needed {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return &addressed{from: "9.9.9.9:1"}, nil
}

// TestNoDescriptors has no descriptor for a new connection: the connection that has been idle for
// longest, of the address with most connections, is closed, and a connection in use is not.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	c := newConnections(100, 0, silent)
	short := &shortListener{}
	for i := range 6 {
		conn := &addressed{from: fmt.Sprintf("1.2.3.%d:1", i%2)}
		short.opened = append(short.opened, conn)
		c.state(conn, http.StateNew)
		if i >= 3 {
			c.state(conn, http.StateActive)
		}
	}
	l := &thriftyListener{short, c}
	for needed := 0; needed <= 3; needed++ {
		short.needed = needed
		if _, err := l.Accept(); err != nil {
			t.Fatalf("%d idle ones have to go: %v", needed, err)
		}
	}
	for i, conn := range short.opened {
		if conn.closed != (i < 3) {
			t.Errorf("connection %d: closed %v", i, conn.closed)
		}
	}
	short.needed = 4
	if _, err := l.Accept(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("without an idle one: %v", err)
	}
	if len(c.open) != 3 {
		t.Errorf("%d connections are counted", len(c.open))
	}
}
