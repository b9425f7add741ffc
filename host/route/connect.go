package route

import (
	"context"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Upstream is what the router needs of a connection to an upstream; see
// upstream.Upstream. It is safe for concurrent use. The error of a method is
// the cause of ctx's end, or says why there is no answer.
type Upstream interface {
	// Ready waits until the upstream has started; the error says why it is
	// down.
	Ready(ctx context.Context) error
	// Handshake waits for the first handshake.
	Handshake(ctx context.Context) (result []byte, err error)
	// Server is the raw result of the last handshake; not ok before the first.
	Server() (result []byte, ok bool)
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
	Notify(ctx context.Context, method string, params []byte) error
}

// Connection is an upstream as one session reaches it.
type Connection struct {
	Upstream
	// Own is the session that has this connection, and the process behind it,
	// for itself (isolation = "session"); nil where sessions share it.
	Own Session
}

// Upstreams finds connections. It is the one place where it is decided whether
// sessions share an upstream: the router asks it for every request, keeps
// subscriptions and log levels by what it says, and gives what comes over a
// connection with an owner to that owner (see Router.Peer).
type Upstreams interface {
	// For is the connection to a server that s uses. s is nil for work of no
	// session. It does not wait for the server. It is not ok for a server that
	// is not configured. For is called from many goroutines, with no lock held.
	For(s Session, server string) (c Connection, ok bool)
}

// Shared are Upstreams that all sessions share. The zero value is empty.
type Shared struct {
	mu   sync.RWMutex
	byID map[string]Upstream
}

// Set adds the upstream of a server, or replaces it.
func (u *Shared) Set(server string, up Upstream) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byID == nil {
		u.byID = map[string]Upstream{}
	}
	u.byID[server] = up
}

// For implements Upstreams.
func (u *Shared) For(_ Session, server string) (Connection, bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	up, ok := u.byID[server]
	return Connection{Upstream: up}, ok
}

// place tells connections apart. It outlives them: a connection that replaces
// another has the same place.
type place struct {
	server string
	own    Session // Connection.Own
}

// reached is a connection under the name of its server.
type reached struct {
	server string
	Connection
}

func (c reached) place() place { return place{c.server, c.Own} }

// to finds the connection of a session to a server.
func (r *Router) to(s Session, server string) (reached, bool) {
	c, ok := r.Upstreams.For(s, server)
	return reached{server, c}, ok
}

// reach are the connections of a session in the order of the configuration.
func (r *Router) reach(s Session) []reached {
	var all []reached
	for _, server := range r.Catalog.Upstreams() {
		if c, ok := r.to(s, server); ok {
			all = append(all, c)
		}
	}
	return all
}

// offers tells whether an upstream has a capability; it is not known before
// the first handshake.
func (c reached) offers(path ...string) (has, known bool) {
	result, ok := c.Server()
	if !ok {
		return false, false
	}
	return declares(result, path...), true
}

// declares tells whether what a peer said in the handshake has a capability.
func declares(handshake []byte, path ...string) bool {
	return has(handshake, append([]string{"capabilities"}, path...)...)
}

func has(object []byte, path ...string) bool {
	raw, ok := wire.Get(object, path...)
	return ok && string(raw) != "false" && string(raw) != "null"
}

// offering are those of a session's connections whose upstreams are known to
// have a capability.
func (r *Router) offering(s Session, path ...string) []reached {
	return slices.DeleteFunc(r.reach(s), func(c reached) bool {
		has, _ := c.offers(path...)
		return !has
	})
}

// offered tells whether any upstream has a capability, or may have it since it
// is not known yet, or the session was told that there is one: an upstream may
// turn out to be other than it was when it ran before.
func (r *Router) offered(s Session, path ...string) bool {
	return slices.ContainsFunc(r.reach(s), func(c reached) bool {
		has, known := c.offers(path...)
		return has || !known
	}) || r.told(s, path...)
}

// told tells whether a session was told of a capability in the answer to its
// initialize.
func (r *Router) told(s Session, path ...string) (told bool) {
	r.with(s, func(c *client) { told = has(c.offered, path...) })
	return told
}
