package envelope

import (
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Scopes of a cache hint (revision 2026-07-28, server/utilities/caching).
const (
	ScopePrivate = "private" // the result is for this client's credentials only
	ScopePublic  = "public"  // the result is the same for everybody
)

// Hints say how long a client may keep a result.
type Hints struct {
	TTL   int64  // milliseconds, 0 or more
	Scope string // ScopePrivate or ScopePublic
}

// maxTTL is the longest time that a result may be kept according to the proxy, in milliseconds: a
// day.
const maxTTL = 24 * 60 * 60 * 1000

// ReadHints returns the hints of a result. Missing or malformed hints promise nothing.
func ReadHints(result []byte) Hints {
	h := Hints{Scope: ScopePrivate}
	raw, _ := wire.Get(result, "ttlMs")
	if ttl, err := strconv.ParseFloat(string(raw), 64); err == nil {
		h.TTL = int64(min(max(ttl, 0), maxTTL))
	}
	if scope, _ := wire.GetString(result, "cacheScope"); scope == ScopePublic {
		h.Scope = ScopePublic
	}
	return h
}

// And returns the hints of a result made of two results.
func (h Hints) And(other Hints) Hints {
	if other.Scope != ScopePublic {
		h.Scope = ScopePrivate
	}
	h.TTL = min(h.TTL, other.TTL)
	return h
}

// Freshness says how long a list of a server is current. The zero value promises nothing.
type Freshness struct {
	// Hints are the hints of the server; nil in the handshake era, which has no hints.
	Hints *Hints
	// Read is when the list was read.
	Read time.Time
	// Live is set if the server announces changes of the list, so the list is always current.
	Live bool
	// Nothing is set if the server has no list of this kind.
	Nothing bool
}

// Expired reports whether a server of the stateless era has to be asked again for a current list.
func (f Freshness) Expired(now time.Time) bool {
	return f.Hints != nil && !f.Live && f.rest(now) == 0
}

// rest returns how much is left of the time for which the list may be kept, in
// milliseconds. f.Hints is not nil.
func (f Freshness) rest(now time.Time) int64 {
	if f.Live {
		return f.Hints.TTL
	}
	return max(f.Hints.TTL-max(now.Sub(f.Read), 0).Milliseconds(), 0)
}

// Combine returns the hints of a list composed of lists of several servers. Servers of the
// handshake era give no hints: their list counts as private, and may be kept only if the server
// announces changes.
func Combine(now time.Time, all []Freshness) Hints {
	combined := Hints{TTL: maxTTL, Scope: ScopePublic}
	hinted := false
	for _, f := range all {
		switch {
		case f.Nothing:
		case f.Hints != nil:
			hinted = true
			combined = combined.And(Hints{f.rest(now), f.Hints.Scope})
		case f.Live:
			combined.Scope = ScopePrivate
		default:
			return Hints{0, ScopePrivate}
		}
	}
	if !hinted {
		return Hints{0, ScopePrivate}
	}
	return combined
}
