package front

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// digest stands for a bearer token; the zero one for none.
type digest [sha256.Size]byte

// guard decides who may come in.
type guard struct {
	tokens  []digest
	noSave  []digest // of tokens
	origins []string
	hosts   []string
}

func newGuard(a Access) *guard {
	g := &guard{tokens: digests(a.Tokens), noSave: digests(a.NoSave)}
	for _, origin := range a.AllowedOrigins {
		g.origins = append(g.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	for _, host := range a.AllowedHosts {
		g.hosts = append(g.hosts, strings.ToLower(host))
	}
	return g
}

func digests(tokens []string) []digest {
	var all []digest
	for _, token := range tokens {
		all = append(all, sha256.Sum256([]byte(token)))
	}
	return all
}

// host tells whether r was sent to a name of ours. Otherwise a web page may
// have had its own name resolved to our address (DNS rebinding).
func (g *guard) host(r *http.Request) bool {
	name := hostname(r.Host)
	if loopback(name) || slices.Contains(g.hosts, "*") {
		return true
	}
	host := strings.ToLower(r.Host)
	if slices.Contains(g.hosts, host) || slices.Contains(g.hosts, strings.ToLower(name)) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	local, ok := localAddr(r)
	return ok && local.Addr() == addr.Unmap()
}

// origin tells whether the web page that r comes from, if any, may use us: one
// that is listed, or one of the address itself. listed is true for the former:
// only then its scripts may read the answers (CORS).
func (g *guard) origin(r *http.Request) (ok, listed bool) {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return true, false
	}
	if len(values) > 1 {
		return false, false
	}
	origin := strings.ToLower(values[0])
	if slices.Contains(g.origins, "*") || slices.Contains(g.origins, origin) {
		return true, true
	}
	return slices.Contains(ownOrigins(r), origin), false
}

// ownOrigins are the origins of pages at the address that r has come to, as
// browsers write them (RFC 6454, 6.2). The header Host says nothing of it: a
// client can write there what it likes.
func ownOrigins(r *http.Request) []string {
	addr, ok := localAddr(r)
	if !ok {
		return nil
	}
	scheme, usual := "http", uint16(80)
	if r.TLS != nil {
		scheme, usual = "https", 443
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
		if addr.Port() != usual {
			origin += ":" + strconv.Itoa(int(addr.Port()))
		}
		origins = append(origins, origin)
	}
	return origins
}

// localAddr is the address of ours that r has come to.
func localAddr(r *http.Request) (netip.AddrPort, bool) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	addr := tcp.AddrPort()
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), true
}

// knows tells whether a session of whoever has the token may go on.
func (g *guard) knows(token digest) bool {
	if len(g.tokens) == 0 {
		return token == digest{}
	}
	return slices.Contains(g.tokens, token)
}

// saves tells whether whoever has the token may save tools.
func (g *guard) saves(token digest) bool { return !slices.Contains(g.noSave, token) }

// token finds out with which token r came. All of them are compared, each in
// constant time.
func (g *guard) token(r *http.Request) (token digest, ok bool) {
	if len(g.tokens) == 0 {
		return digest{}, true
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = sha256.Sum256([]byte(strings.TrimSpace(value)))
	found := 0
	for i := range g.tokens {
		found |= subtle.ConstantTimeCompare(g.tokens[i][:], token[:])
	}
	return token, found == 1 && strings.EqualFold(scheme, "Bearer")
}

// hostname is a Host header without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func loopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// accepts tells whether the client takes a media type; one that does not say
// takes all.
func accepts(r *http.Request, kind, subtype string) bool {
	values := r.Header["Accept"]
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			part, _, _ = strings.Cut(part, ";")
			k, s, _ := strings.Cut(strings.TrimSpace(part), "/")
			if (k == "*" || strings.EqualFold(k, kind)) && (s == "*" || strings.EqualFold(s, subtype)) {
				return true
			}
		}
	}
	return len(values) == 0
}

// prefersEvents tells whether the client names event streams before JSON, as
// those do that want one in any case.
func prefersEvents(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	events := strings.Index(accept, "text/event-stream")
	plain := strings.Index(accept, "application/json")
	return events >= 0 && (plain < 0 || events < plain)
}

// isJSON tells whether the body of r is declared as JSON.
func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// isPlain tells whether the body of r is what it says it is, and nothing that is
// to be unpacked: a few bytes could stand for any number.
func isPlain(r *http.Request) bool {
	encoding := r.Header.Get("Content-Encoding")
	return encoding == "" || strings.EqualFold(encoding, "identity")
}
