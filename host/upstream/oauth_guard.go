package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// guard is an http.RoundTripper for authorization servers. A server chooses
// which ones it names, so it must not choose what else of our network is asked
// (server-side request forgery): https only, and no address that is more
// private than that of the server itself. Addresses are checked after names
// are resolved, on every connection. It is safe for concurrent use.
type guard struct {
	upstream *url.URL
	// pinned is the host of the configured issuer, which may be anywhere: the
	// operator has named it. "" for none.
	pinned string
	net    *network
	// seen is the most public address of the server's connections so far, plus
	// one; 0: none yet, or all through a proxy.
	seen atomic.Int32

	// direct checks every address, and uses no proxy. open checks none: for the
	// pinned host, for the server's own origin, which is named as well, and for
	// proxies, which resolve names themselves.
	direct, open *http.Transport
}

// network is what a guard asks of the system.
type network struct {
	resolver *net.Resolver
	roots    *x509.CertPool
	reach    func(netip.AddrPort) reach
	proxy    func(*http.Request) (*url.URL, error)
}

// systemNetwork is that of everything but tests.
var systemNetwork = network{
	reach: func(a netip.AddrPort) reach { return reachOf(a.Addr()) },
	proxy: http.ProxyFromEnvironment,
}

func newGuard(upstream *url.URL, conf OAuth) *guard {
	g := &guard{upstream: upstream, net: conf.network}
	if g.net == nil {
		g.net = &systemNetwork
	}
	if u, err := url.Parse(conf.Issuer); err == nil {
		g.pinned = u.Hostname()
	}
	g.direct, g.open = g.transport(g.control), g.transport(nil)
	g.direct.Proxy, g.open.Proxy = nil, g.net.proxy
	return g
}

type controlFunc func(ctx context.Context, network, address string, c syscall.RawConn) error

// transport has limits on everything that a server may draw out.
func (g *guard) transport(control controlFunc) *http.Transport {
	t := newTransport("https")
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: g.net.resolver, ControlContext: control}
	t.DialContext = dialer.DialContext
	t.DisableKeepAlives = true // a login has three requests, a renewal one
	t.MaxResponseHeaderBytes = 64 << 10
	t.ResponseHeaderTimeout = oauthTimeout
	g.trust(t)
	return t
}

// trust sets the certificates of the network, if it has some of its own.
func (g *guard) trust(t *http.Transport) {
	if g.net.roots != nil {
		t.TLSClientConfig.RootCAs = g.net.roots
	}
}

// watch makes a transport of the server itself tell how public its addresses
// are.
func (g *guard) watch(t *http.Transport) {
	dial := t.DialContext
	if g.net.resolver != nil {
		dial = (&net.Dialer{Resolver: g.net.resolver}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, _ := net.SplitHostPort(address)
		if a, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && strings.EqualFold(host, g.upstream.Hostname()) {
			g.saw(g.net.reach(a))
		}
		return conn, nil
	}
	g.trust(t)
}

// saw keeps the most public address. What resolves a name could otherwise make
// the server look like one of this machine for a moment.
func (g *guard) saw(r reach) {
	for {
		old := g.seen.Load()
		if old != 0 && old <= int32(r)+1 || g.seen.CompareAndSwap(old, int32(r)+1) {
			return
		}
	}
}

// own is how private the server is. One counts as of this machine only if its
// URL says so: a name can be made to resolve to anything.
func (g *guard) own() reach {
	if r, ok := literalReach(g.upstream.Host, g.net); ok {
		return r
	}
	seen := g.seen.Load()
	if seen == 0 {
		return reachPublic
	}
	if r := reach(seen - 1); r < reachLoopback {
		return r
	}
	return reachPrivate
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.check(req.URL); err != nil {
		return nil, err
	}
	if strings.EqualFold(req.URL.Hostname(), g.pinned) || sameOrigin(req.URL, g.upstream) {
		return g.open.RoundTrip(req)
	}
	proxy, err := g.net.proxy(req)
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		return g.open.RoundTrip(req)
	}
	return g.direct.RoundTrip(req)
}

func (g *guard) close() {
	g.direct.CloseIdleConnections()
	g.open.CloseIdleConnections()
}

// check refuses a URL that no authorization server of the upstream has,
// whatever its name resolves to.
func (g *guard) check(u *url.URL) error {
	literal, isLiteral := literalReach(u.Host, g.net)
	switch {
	case u.Host == "" || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return &addressError{url: u, why: "that is no address of an authorization server"}
	case strings.EqualFold(u.Hostname(), g.pinned) && u.Scheme == "https":
		return nil
	case u.Scheme != "https" && (u.Scheme != "http" || !isLiteral || literal != reachLoopback || g.own() != reachLoopback):
		return &addressError{url: u, why: "authorization servers are used over https only (http on this machine is for servers whose own url is of this machine)"}
	case isLiteral && !g.own().mayName(literal):
		return g.refused(u.Host, literal)
	case !isLiteral && looksNumeric(u.Hostname()):
		return &addressError{url: u, why: "that is no name of a host, and no full address"}
	}
	return nil
}

// control is called with every address before a connection is made to it.
func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s is no address: %w", clip(address), err)
	}
	if r := g.net.reach(a); !g.own().mayName(r) {
		return g.refused(address, r)
	}
	return nil
}

func (g *guard) refused(host string, r reach) error {
	return &addressError{
		url: &url.URL{Host: host},
		why: fmt.Sprintf("it is a %s address, and the server that names it has a %s one (if it is right, set issuer in oauth)", r, g.own()),
	}
}

// addressError says that an authorization server is not asked because of where
// it is.
type addressError struct {
	url *url.URL
	why string
}

func (e *addressError) Error() string {
	shown := url.URL{Scheme: e.url.Scheme, Host: e.url.Host, Path: e.url.Path}
	return fmt.Sprintf("%s is not asked: %s", clip(strings.TrimPrefix(shown.String(), "//")), e.why)
}

// reach says who can reach an address. The order is from public to private.
type reach int32

const (
	reachPublic    reach = iota
	reachPrivate         // of a local network
	reachLinkLocal       // of a link, such as the metadata services of clouds
	reachLoopback        // of this machine
	reachNone            // of no host
)

func (r reach) String() string {
	return [...]string{"public", "private", "link-local", "loopback", "multicast or broadcast"}[r]
}

// mayName tells whether a server with an address of r may have an address of
// other asked.
func (r reach) mayName(other reach) bool {
	switch other {
	case reachPublic:
		return true
	case reachPrivate:
		return r != reachPublic
	case reachLinkLocal:
		return r == reachLinkLocal || r == reachLoopback
	case reachLoopback:
		return r == reachLoopback
	}
	return false
}

// privatePrefixes are those that netip.Addr.IsPrivate does not have: shared
// address space (RFC 6598), special purposes (RFC 6890), benchmarks (RFC 2544),
// reserved, site-local, Teredo, and local translation (RFC 8215).
var privatePrefixes = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
}

// embeddings are IPv6 prefixes behind which an IPv4 address stands: RFC 6052,
// RFC 3056, and the old IPv4-compatible form.
var embeddings = []netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("::/96"),
}

func reachOf(a netip.Addr) reach {
	a = a.Unmap().WithZone("")
	switch {
	case a.IsLoopback(), a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return reachLoopback
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}), !a.IsValid():
		return reachNone
	case a.IsLinkLocalUnicast():
		return reachLinkLocal
	case a.IsPrivate():
		return reachPrivate
	}
	for _, p := range embeddings {
		if p.Contains(a) {
			b, from := a.As16(), p.Bits()/8
			return reachOf(netip.AddrFrom4([4]byte(b[from : from+4])))
		}
	}
	for _, p := range privatePrefixes {
		if p.Contains(a) {
			return reachPrivate
		}
	}
	return reachPublic
}

// literalReach is the reach of a host, with or without a port, that is written
// as an address, or as a name of this machine (RFC 6761, 6.3).
func literalReach(hostport string, n *network) (reach, bool) {
	u := url.URL{Host: hostport}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return n.reach(netip.AddrPortFrom(a, uint16(portNumber(u.Port())))), true
	}
	return reachLoopback, host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func portNumber(port string) (n int) {
	for _, c := range []byte(port) {
		n = (n*10 + int(c-'0')) & 0xFFFF
	}
	return n
}

// looksNumeric is true for what some resolvers and browsers take for an
// address: "127.1", "0x7f000001".
func looksNumeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && last[0] >= '0' && last[0] <= '9'
}

// sameOriginOnly follows redirects of requests that carry no secret, and only
// within the origin.
func sameOriginOnly(req *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) > maxHops || !sameOrigin(via[0].URL, req.URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

var errTooLong = errors.New("the answer is too long")
