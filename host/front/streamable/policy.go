package streamable

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// digest identifies a bearer token; the zero digest means no token.
type digest [sha256.Size]byte

// principal returns the name of the clients with that token, see route.Session: a digest
// of the digest. It is "" for the zero digest, of clients without a token.
func (d digest) principal() string {
	if d == (digest{}) {
		return ""
	}
	again := sha256.Sum256(d[:])
	return hex.EncodeToString(again[:16])
}

// policy is Access in a form for checking requests. A request loads it once and passes it
// on, so that a reload cannot mix two policies.
type policy struct {
	tokens  []digest
	noSave  []digest // of tokens
	origins []string
	hosts   []string
}

func newPolicy(a Access) *policy {
	p := &policy{tokens: digests(a.Tokens), noSave: digests(a.NoSave)}
	for _, origin := range a.AllowedOrigins {
		p.origins = append(p.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	for _, host := range a.AllowedHosts {
		p.hosts = append(p.hosts, strings.ToLower(host))
	}
	return p
}

func digests(tokens []string) []digest {
	var all []digest
	for _, token := range tokens {
		all = append(all, sha256.Sum256([]byte(token)))
	}
	return all
}

// allowsHost reports whether r was sent to one of our names. Otherwise a web page may
// have made its own name resolve to our address (DNS rebinding).
func (p *policy) allowsHost(r *http.Request) bool {
	name := hostname(r.Host)
	if isLoopback(name) || slices.Contains(p.hosts, "*") {
		return true
	}
	host := strings.ToLower(r.Host)
	if slices.Contains(p.hosts, host) || slices.Contains(p.hosts, strings.ToLower(name)) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	local, ok := localAddr(r)
	return ok && local.Addr() == addr.Unmap()
}

// allowsOrigin reports whether the web page that r comes from, if any, may use the
// endpoint: a page of a configured origin, or of the address that r was sent to.
// configured is true for the former. Only such pages may read the answers (CORS).
func (p *policy) allowsOrigin(r *http.Request) (ok, configured bool) {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return true, false
	}
	if len(values) > 1 {
		return false, false
	}
	origin := strings.ToLower(values[0])
	if slices.Contains(p.origins, "*") || slices.Contains(p.origins, origin) {
		return true, true
	}
	return slices.Contains(ownOrigins(r), origin), false
}

// ownOrigins returns the origins of web pages at the address that r was sent to, in the
// form that browsers send (RFC 6454, section 6.2). They do not depend on the Host header,
// which a client can set to anything.
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

// accepts reports whether a session that was begun with the token may continue.
func (p *policy) accepts(token digest) bool {
	if len(p.tokens) == 0 {
		return token == digest{}
	}
	return slices.Contains(p.tokens, token)
}

// maySave reports whether clients with the token may save tools.
func (p *policy) maySave(token digest) bool { return !slices.Contains(p.noSave, token) }

// authenticate returns the token that r was sent with; ok is false if it is not
// accepted. It is compared with every accepted token, each time in constant time.
func (p *policy) authenticate(r *http.Request) (token digest, ok bool) {
	if len(p.tokens) == 0 {
		return digest{}, true
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = sha256.Sum256([]byte(strings.TrimSpace(value)))
	found := 0
	for i := range p.tokens {
		found |= subtle.ConstantTimeCompare(p.tokens[i][:], token[:])
	}
	return token, found == 1 && strings.EqualFold(scheme, "Bearer")
}

// hostname returns a Host header without its port.
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
