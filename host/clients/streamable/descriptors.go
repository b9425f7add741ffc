package streamable

import (
	"errors"
	"net"
	"syscall"
)

// Descriptors reserved for everything but the connections of clients: files, servers, and the
// connections of servers, pages and metrics.
const (
	leastReserve     = 64
	reserveForServer = 8
)

// affordable returns how many of most connections a process with a limit of files open files can
// have; all of them if files is 0. A quarter of the files is left for the rest, or more for many
// servers, but at most three quarters.
func affordable(most, files, servers int) int {
	if files <= 0 {
		return most
	}
	reserve := min(max(files/4, leastReserve+servers*reserveForServer), files/4*3)
	return max(1, min(most, files-reserve))
}

// thriftyListener is a listener that closes idle connections when the process has no descriptor
// left for a new connection.
type thriftyListener struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (l *thriftyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			return conn, err
		}
		victim := l.connections.giveUp()
		if victim == nil {
			return conn, err // the server tries again after a while
		}
		closeSilently(victim)
	}
}

// giveUp removes and returns an idle connection, or nil. The caller must close the connection.
func (c *connections) giveUp() (victim net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if victim = c.idlest(func(*connection) bool { return true }); victim != nil {
		c.remove(victim)
	}
	return victim
}
