// Package origin decides from the headers Host and Origin whether an HTTP server answers a request.
// The package keeps out web pages: pages of other sites, and pages with a name that was made to
// resolve to our address (DNS rebinding). Begin with Rules.
package origin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Rules are the allowed hosts and origins besides the hosts and origins of the address that a
// request was sent to. The zero value adds none.
type Rules struct{ origins, hosts []string }

// NewRules makes Rules of origins ("https://host:port") and of host names with or without
// a port. "*" allows all.
func NewRules(origins, hosts []string) Rules {
	var u Rules
	for _, o := range origins {
		u.origins = append(u.origins, strings.ToLower(strings.TrimSuffix(o, "/")))
	}
	for _, h := range hosts {
		u.hosts = append(u.hosts, strings.ToLower(h))
	}
	return u
}

// AllowsHost reports whether r was sent to a name of ours. Otherwise a web page may have made the
// page's own name resolve to our address (DNS rebinding).
func (u Rules) AllowsHost(r *http.Request) bool {
	name := hostname(r.Host)
	if isLoopback(name) || slices.Contains(u.hosts, "*") {
		return true
	}
	host := strings.ToLower(r.Host)
	if slices.Contains(u.hosts, host) || slices.Contains(u.hosts, strings.ToLower(name)) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	local, ok := localAddr(r)
	return ok && local.Addr() == addr.Unmap()
}

// AllowsOrigin reports whether the web page that r comes from, if any, may use the endpoint: a page
// of a configured origin, or of the address that r was sent to. configured is true for the former.
// Only pages of configured origins may read the answers (CORS).
func (u Rules) AllowsOrigin(r *http.Request) (ok, configured bool) {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return true, false
	}
	if len(values) > 1 {
		return false, false
	}
	if value := strings.ToLower(values[0]); slices.Contains(u.origins, "*") || slices.Contains(u.origins, value) {
		return true, true
	}
	return slices.Contains(ownOrigins(r), strings.ToLower(values[0])), false
}

// ownOrigins returns the origins of web pages at the address that r was sent to, in the form that
// browsers send (RFC 6454, section 6.2). The origins do not depend on the Host header, which a
// client can set to any value.
func ownOrigins(r *http.Request) []string {
	addr, ok := localAddr(r)
	if !ok {
		return nil
	}
	scheme, defaultPort := "http", uint16(80)
	if r.TLS != nil {
		scheme, defaultPort = "https", 443
	}
	ip := addr.Addr().WithZone("")
	names := []string{ip.String()}
	if ip.Is6() {
		names[0] = "[" + names[0] + "]"
	}
	if ip.IsLoopback() {
		names = append(names, "localhost")
	}
	var origins []string
	for _, name := range names {
		origin := scheme + "://" + name
		if addr.Port() != defaultPort {
			origin += ":" + strconv.Itoa(int(addr.Port()))
		}
		origins = append(origins, origin)
	}
	return origins
}

// localAddr returns the local address of the connection on which r arrived.
func localAddr(r *http.Request) (netip.AddrPort, bool) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	addr := tcp.AddrPort()
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), true
}

// hostname returns a Host header without the port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}
