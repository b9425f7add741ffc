package front

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// connections bounds the connections of a server. A new one that is too many
// takes the place of one on which no request is under way, of the address that
// has most; where there is none it is closed.
type connections struct {
	most, mostOfOne int // of one address; 0: see quotaOf
	log             *slog.Logger

	mu     sync.Mutex
	open   map[net.Conn]*connection
	of     map[netip.Prefix]int // how many each address has
	warned time.Time
}

type connection struct {
	from  netip.Prefix
	idle  bool      // no request is under way
	since time.Time // then
}

func newConnections(most, mostOfOne int, log *slog.Logger) *connections {
	return &connections{most: most, mostOfOne: mostOfOne, log: log, open: map[net.Conn]*connection{}, of: map[netip.Prefix]int{}}
}

// state is a http.Server's ConnState.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if victim := c.enter(conn); victim != nil {
			closeNow(victim)
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

// enter takes a new connection on. The victim, if there is one, is to be closed:
// it may be conn.
func (c *connections) enter(conn net.Conn) (victim net.Conn) {
	from := addressOf(conn.RemoteAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	crowded := c.of[from] >= quotaOf(from, c.mostOfOne, c.most)
	if crowded || len(c.open) >= c.most {
		victim = c.idlest(func(other *connection) bool { return !crowded || other.from == from })
		if now := time.Now(); now.Sub(c.warned) >= time.Minute {
			c.warned = now
			c.log.Warn("too many connections (idle ones are closed, or else new ones; see max_connections)",
				"open", len(c.open), "address", from.Addr().String(), "of it", c.of[from])
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

// idlest is the connection that has been idle for longest, of the address that
// has most among those that have idle ones; nil if there is none.
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

// closeNow closes a connection without a last word to its client, who may not
// read it.
func closeNow(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

// addressOf is the address of a client by its address and port: what one client
// has at least. That is a network /64 of IPv6.
func addressOf(addrPort string) netip.Prefix {
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

// quotaOf is how much of the whole one address may have: what is set, or else half,
// but all for loopback addresses: nothing tells clients apart there, and it is
// where proxies come from.
func quotaOf(address netip.Prefix, set, whole int) int {
	switch {
	case set > 0:
		return min(set, whole)
	case address.Addr().IsLoopback():
		return whole
	}
	return (whole + 1) / 2
}
