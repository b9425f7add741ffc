package oauth

import (
	"net/netip"
	"net/url"
	"strings"
)

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
