package streamable

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// ServerOptions of an http.Server. Zero values mean the default.
type ServerOptions struct {
	// MaxConnections is the most connections at a time. Default 4096.
	MaxConnections int
	// MaxConnectionsPerAddress is the most connections from an address; an IPv6 /64 network counts
	// as an address. The default is half of MaxConnections, but MaxConnections for loopback
	// addresses, which proxies connect from.
	MaxConnectionsPerAddress int
	// Servers is how many servers the process has, for which descriptors are left.
	Servers int
	Log     *slog.Logger
}

// Server is an http.Server that leaves descriptors to the rest of the process.
type Server struct {
	*http.Server
	connections *connections
}

// Serve serves the connections of a listener; see http.Server.Serve. When the process has no
// descriptor left for a new connection, Serve closes an idle connection.
func (s *Server) Serve(ln net.Listener) error {
	return s.Server.Serve(&thriftyListener{ln, s.connections})
}

// NewServer makes a Server for long streams: with a timeout for headers, but no timeout for
// answers. The Handler limits the time for bodies and stalled writes.
func NewServer(handler http.Handler, opts ServerOptions) *Server {
	most := cmp.Or(opts.MaxConnections, 4096)
	if files := openFiles(); affordable(most, files, opts.Servers) < most {
		most = affordable(most, files, opts.Servers)
		opts.Log.Info("fewer connections than "+limits.Connections.Setting()+" says, because the process may open only so many files (raise its limit, as with ulimit -n)",
			"connections", most, "files", files)
	}
	conns := newConnections(most, opts.MaxConnectionsPerAddress, opts.Log)
	return &Server{connections: conns, Server: &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveBounded(w, r, handler) }),
		ConnState:         conns.state,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          100, // RFC 9113, section 6.5.2, recommends no less
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     256 << 10,
			SendPingTimeout:               time.Minute,
		},
		ErrorLog: slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}}
}

// serveBounded sets a deadline for the body of a request, whether the handler reads the body or the
// server skips the body. readBody moves the deadline. serveBounded refuses a request with two
// values of a header that a handler acts on.
func serveBounded(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyGrace))
	}
	if name := repeatedHeader(r.Header); name != "" {
		w.Header().Set("Connection", "close") // the body has not been read
		http.Error(w, "the header "+name+" has several values (send it once)", http.StatusBadRequest)
		return
	}
	handler.ServeHTTP(w, r)
}

// singleHeaders are the headers that handlers act on and that have a single value (RFC 9110,
// section 5.3). A proxy in front of this server could act on another of several values. Host is
// missing here because net/http refuses a second Host.
var singleHeaders = []string{
	"Authorization", "Content-Encoding", "Content-Type", "Origin", "Sec-Fetch-Site",
	resumeHeader, sessionHeader, envelope.HeaderVersion, envelope.HeaderMethod, envelope.HeaderName,
}

// repeatedHeader returns the name of a header of a request that may have a single value and has
// several, or "".
func repeatedHeader(h http.Header) string {
	for name, values := range h {
		if len(values) > 1 && (slices.Contains(singleHeaders, name) || strings.HasPrefix(name, envelope.HeaderParam)) {
			return display.Excerpt(name, maxQuoted)
		}
	}
	return ""
}

// maxPEM is the size of the largest certificate chain or key, in bytes.
const maxPEM = 1 << 20

// KeyPair reads a certificate chain and the chain's key from PEM files.
func KeyPair(ctx context.Context, certFile, keyFile string) (tls.Certificate, error) {
	cert, err := regular.Read(ctx, certFile, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := regular.Read(ctx, keyFile, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

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
