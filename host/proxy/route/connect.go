package route

import (
	"context"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Upstream is a connection to an upstream, as used by the router; see upstream.Upstream. An
// Upstream is safe for concurrent use. The error of a method is the cause of ctx, or the reason for
// the missing answer.
type Upstream interface {
	// Ready waits until the upstream has started; the error is the reason of a failed start.
	Ready(ctx context.Context) error
	// Handshake waits for the first handshake.
	Handshake(ctx context.Context) (result []byte, err error)
	// Server returns the raw result of the last handshake; ok is false before the first.
	Server() (result []byte, ok bool)
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
	Notify(ctx context.Context, method string, params []byte) error
}

// Connection is an upstream as seen by a session.
type Connection struct {
	Upstream
	// Own is the only session that uses this connection and the process behind the connection
	// (isolation = "session"); nil if sessions share both.
	Own Session
}

// Upstreams finds connections. Only Upstreams decides whether sessions share an upstream: the
// router asks for the connection of every request, keeps subscriptions and log levels per
// connection, and delivers messages of an owned connection to the owner (see Router.Peer).
type Upstreams interface {
	// For returns the connection that s uses for a server; ok is false if the server is not
	// configured. s is nil for work that belongs to no session. For does not wait for the server,
	// and is called from many goroutines, with no lock held.
	For(s Session, server string) (c Connection, ok bool)
}

// Shared are Upstreams that all sessions share. The zero value is empty.
type Shared struct {
	mu   sync.RWMutex
	byID map[string]Upstream
}

// Set adds or replaces the upstream of a server.
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

// connKey identifies a connection. A connection and the next connection in the same place have the
// same key.
type connKey struct {
	server string
	own    Session // Connection.Own
}

// serverConn is a connection and the name of the server.
type serverConn struct {
	server string
	Connection
}

func (c serverConn) key() connKey { return connKey{c.server, c.Own} }

// to returns the connection of a session to a server.
func (r *Router) to(s Session, server string) (serverConn, bool) {
	c, ok := r.Upstreams.For(s, server)
	return serverConn{server, c}, ok
}

// connections returns all connections of a session, in the order of the configuration.
func (r *Router) connections(s Session) []serverConn {
	var all []serverConn
	for _, server := range r.scope(s).Upstreams() {
		if c, ok := r.to(s, server); ok {
			all = append(all, c)
		}
	}
	return all
}

// offers reports whether an upstream has a capability; known is false before the
// first handshake.
func (c serverConn) offers(path ...string) (has, known bool) {
	result, ok := c.Server()
	if !ok {
		return false, false
	}
	return declares(result, path...), true
}

// declares reports whether a peer's handshake has a capability.
func declares(handshake []byte, path ...string) bool {
	return has(handshake, append([]string{"capabilities"}, path...)...)
}

func has(object []byte, path ...string) bool {
	raw, ok := wire.Get(object, path...)
	return ok && string(raw) != "false" && string(raw) != "null"
}

// offering returns the connections of a session whose upstreams are known to have a capability.
func (r *Router) offering(s Session, path ...string) []serverConn {
	return slices.DeleteFunc(r.connections(s), func(c serverConn) bool {
		has, _ := c.offers(path...)
		return !has
	})
}

// offered reports whether any upstream has a capability, or may have it because the capabilities of
// the upstream are not known yet, or whether the session was told of the capability: an upstream
// may have lost it since the remembered run.
func (r *Router) offered(s Session, path ...string) bool {
	return slices.ContainsFunc(r.connections(s), func(c serverConn) bool {
		has, known := c.offers(path...)
		return has || !known
	}) || r.told(s, path...)
}

// told reports whether a session was told of a capability in the answer to initialize.
func (r *Router) told(s Session, path ...string) (told bool) {
	r.with(s, func(c *client) { told = has(c.offered, path...) })
	return told
}
