package oauth

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

// guard is an http.RoundTripper for authorization servers. An MCP server names authorization
// servers, and must not be able to make us send requests to other hosts of our network (server-side
// request forgery). So only https is allowed, and no address more private than the server's own.
// The address of every connection is checked after the name has been resolved. It is safe for
// concurrent use.
type guard struct {
	upstream *url.URL
	// pinned is the host of the configured issuer, or "". pinned may be anywhere, because the
	// operator has named the host.
	pinned string
	net    *network
	// seen is the most public reach of the server's addresses so far, plus one; 0 without a
	// connection yet, or with connections only through proxies.
	seen atomic.Int32

	// direct checks every address, and uses no proxy. open checks none: open is for the pinned
	// host, for the server's own origin, and for proxies, which resolve names themselves.
	direct, open *http.Transport
}

// network is the part of the system that a guard uses.
type network struct {
	resolver *net.Resolver
	roots    *x509.CertPool
	reach    func(netip.AddrPort) reach
	proxy    func(*http.Request) (*url.URL, error)
}

// systemNetwork is the network of the system. Tests use other networks.
var systemNetwork = network{
	reach: func(a netip.AddrPort) reach { return reachOf(a.Addr()) },
	proxy: http.ProxyFromEnvironment,
}

func newGuard(upstream *url.URL, conf Config) *guard {
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

// transport returns a transport with a timeout for every possible delay by a server.
func (g *guard) transport(control controlFunc) *http.Transport {
	t := httpclient.NewTransport("https")
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: g.net.resolver, ControlContext: control}
	t.DialContext = dialer.DialContext
	t.DisableKeepAlives = true // keep-alives are not worth it for three requests of a login, or the single request of a renewal
	t.MaxResponseHeaderBytes = 64 << 10
	t.ResponseHeaderTimeout = requestTimeout
	g.trust(t)
	return t
}

// trust sets the root certificates of the network, if the network has any.
func (g *guard) trust(t *http.Transport) {
	if g.net.roots != nil {
		t.TLSClientConfig.RootCAs = g.net.roots
	}
}

// watch makes a transport of the MCP server report how public the server's addresses
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

// saw records the reach of an address of the server. guard keeps the most public reach, because the
// owner of the name could make the name resolve to a local address for a moment.
func (g *guard) saw(r reach) {
	for {
		old := g.seen.Load()
		if old != 0 && old <= int32(r)+1 || g.seen.CompareAndSwap(old, int32(r)+1) {
			return
		}
	}
}

// own returns the reach of the server. The reach is this machine only if the URL names this
// machine, because the owner of a name can make the name resolve to any address.
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
	if strings.EqualFold(req.URL.Hostname(), g.pinned) || httpclient.SameOrigin(req.URL, g.upstream) {
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

// check returns an error for a URL that no authorization server of the upstream may have, whatever
// address the name resolves to.
func (g *guard) check(u *url.URL) error {
	literal, isLiteral := literalReach(u.Host, g.net)
	switch {
	case u.Host == "" || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return &addressError{url: u, reason: "not the address of an authorization server"}
	case strings.EqualFold(u.Hostname(), g.pinned) && u.Scheme == "https":
		return nil
	case u.Scheme != "https" && (u.Scheme != "http" || !isLiteral || literal != reachLoopback || g.own() != reachLoopback):
		return &addressError{url: u, reason: "authorization servers are used over https only (http is allowed on this machine, for servers whose own url is on this machine)"}
	case isLiteral && !g.own().mayName(literal):
		return g.refused(u.Host, literal)
	case !isLiteral && looksNumeric(u.Hostname()):
		return &addressError{url: u, reason: "neither a host name nor a complete address"}
	}
	return nil
}

// control is called with every address before a connection to the address.
func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s is not an address: %w", shown(address), err)
	}
	if r := g.net.reach(a); !g.own().mayName(r) {
		return g.refused(address, r)
	}
	return nil
}

func (g *guard) refused(host string, r reach) error {
	return &addressError{
		url:    &url.URL{Host: host},
		reason: fmt.Sprintf("it is a %s address, and the server that names it has a %s one (if that is right, set issuer in oauth)", r, g.own()),
	}
}

// addressError means that no request is sent to an authorization server because of the server's
// address.
type addressError struct {
	url    *url.URL
	reason string
}

func (e *addressError) Error() string {
	u := url.URL{Scheme: e.url.Scheme, Host: e.url.Host, Path: e.url.Path}
	return fmt.Sprintf("no request is sent to %s: %s", shown(strings.TrimPrefix(u.String(), "//")), e.reason)
}

// sameOriginOnly is an http.Client.CheckRedirect that follows redirects only within the origin, and
// only of GET requests, which carry no secret.
func sameOriginOnly(req *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) > httpclient.MaxRedirects || !httpclient.SameOrigin(via[0].URL, req.URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

// reach is from where an address can be reached, ordered from public to private.
type reach int32

const (
	reachPublic    reach = iota
	reachPrivate         // in a local network
	reachLinkLocal       // on the local link, for example the metadata services of clouds
	reachLoopback        // on this machine
	reachNone            // not the address of a host
)

func (r reach) String() string {
	return [...]string{"public", "private", "link-local", "loopback", "multicast or broadcast"}[r]
}

// mayName reports whether a server with an address of reach r may name an address of reach other.
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

// privatePrefixes are private addresses unknown to netip.Addr.IsPrivate: shared address space (RFC
// 6598), special purposes (RFC 6890), benchmarks (RFC 2544), reserved, site-local, Teredo, and
// local translation (RFC 8215).
var privatePrefixes = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
}

// embeddings are IPv6 prefixes followed by an IPv4 address: RFC 6052, RFC 3056, and the old
// IPv4-compatible form.
var embeddings = []netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("::/96"),
}

// reachOf returns the reach of an address, or of the embedded IPv4 address.
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

// literalReach returns the reach of a host, with or without a port, if the host is an IP address or
// a name of this machine (RFC 6761, 6.3). ok is false for other names.
func literalReach(hostport string, n *network) (r reach, ok bool) {
	u := url.URL{Host: hostport}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return n.reach(netip.AddrPortFrom(a, uint16(portNumber(u.Port())))), true
	}
	return reachLoopback, host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// portNumber parses a port of only digits, as accepted by url.Parse.
func portNumber(port string) (n int) {
	for _, c := range []byte(port) {
		n = (n*10 + int(c-'0')) & 0xFFFF
	}
	return n
}

// looksNumeric reports whether some resolvers and browsers read a name as an address, for example
// "127.1" and "0x7f000001".
func looksNumeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && last[0] >= '0' && last[0] <= '9'
}
