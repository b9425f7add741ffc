package streamable

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
)

// connections bounds the connections of a server. At the limit, a new connection replaces an idle
// connection of the address with the most connections. Without idle connections, the new connection
// is closed.
type connections struct {
	most           int
	mostPerAddress int // 0: see shareOfAddress
	log            *slog.Logger

	mu     sync.Mutex
	open   map[net.Conn]*connection
	of     map[netip.Prefix]int // number of connections of each address
	warned time.Time
}

type connection struct {
	from  netip.Prefix
	idle  bool      // no request is being served
	since time.Time // of the last change of idle
}

func newConnections(most, mostPerAddress int, log *slog.Logger) *connections {
	return &connections{
		most: most, mostPerAddress: mostPerAddress, log: log,
		open: map[net.Conn]*connection{}, of: map[netip.Prefix]int{},
	}
}

// state is the ConnState function of the http.Server.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if victim := c.add(conn); victim != nil {
			closeSilently(victim)
		}
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		c.remove(conn)
		c.mu.Unlock()
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		if known := c.open[conn]; known != nil {
			known.idle, known.since = state == http.StateIdle, time.Now()
		}
	}
}

// add adds a new connection. The victim, unless nil, must be closed; the victim may be conn.
func (c *connections) add(conn net.Conn) (victim net.Conn) {
	from := clientAddress(conn.RemoteAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	crowded := c.of[from] >= shareOfAddress(from, c.mostPerAddress, c.most)
	if crowded || len(c.open) >= c.most {
		victim = c.idlest(func(other *connection) bool { return !crowded || other.from == from })
		if now := time.Now(); now.Sub(c.warned) >= time.Minute {
			c.warned = now
			c.log.Warn("too many connections (idle ones are closed, or new ones if none is idle; see "+limits.Connections.Setting()+")",
				"open", len(c.open), "address", from.Addr().String(), "of this address", c.of[from])
		}
		if victim == nil {
			return conn
		}
		c.remove(victim)
	}
	c.open[conn] = &connection{from: from, idle: true, since: time.Now()}
	c.of[from]++
	return victim
}

// idlest returns the connection that has been idle for longest, of the address with the most
// connections among the addresses with idle connections; nil if no connection is idle.
func (c *connections) idlest(among func(*connection) bool) (idlest net.Conn) {
	var best *connection
	for conn, one := range c.open {
		if !one.idle || !among(one) {
			continue
		}
		if best == nil || c.of[one.from] > c.of[best.from] || c.of[one.from] == c.of[best.from] && one.since.Before(best.since) {
			idlest, best = conn, one
		}
	}
	return idlest
}

func (c *connections) remove(conn net.Conn) {
	one := c.open[conn]
	if one == nil {
		return
	}
	delete(c.open, conn)
	if c.of[one.from]--; c.of[one.from] == 0 {
		delete(c.of, one.from)
	}
}

// closeSilently closes a connection without TLS's closing alert, because the client may not read
// the alert.
func closeSilently(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

// clientAddress returns the network under which a client is counted, given its address
// and port: an IPv4 address or an IPv6 /64 network.
func clientAddress(addrPort string) netip.Prefix {
	whole, err := netip.ParseAddrPort(addrPort)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := whole.Addr().Unmap().WithZone(""), 32
	if addr.Is6() && !addr.IsLoopback() {
		bits = 64
	} else if addr.Is6() {
		bits = 128
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}

// shareOfAddress returns the part of total for an address: the configured number, or else half. A
// loopback address may have all, since proxies connect from loopback addresses and hide the
// addresses of their clients.
func shareOfAddress(address netip.Prefix, configured, total int) int {
	switch {
	case configured > 0:
		return min(configured, total)
	case address.Addr().IsLoopback():
		return total
	}
	return (total + 1) / 2
}
