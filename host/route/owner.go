package route

import (
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// relatedTask is the _meta key that says which task a message belongs to
// (revision 2025-11-25, basic/utilities/tasks).
const relatedTask = "io.modelcontextprotocol/related-task"

// Peer handles the requests and notifications that an upstream sends by itself over
// one connection.
type Peer struct {
	router *Router
	conn   connKey
}

// Peer returns the Peer of a server's shared connection (own is nil), or of its
// connection for the session own; see Connection.Own.
func (r *Router) Peer(server string, own Session) Peer { return Peer{r, connKey{server, own}} }

// OnNotification delivers a notification of a shared upstream; see Peer.
func (r *Router) OnNotification(server string, m wire.Inbound) { r.Peer(server, nil).OnNotification(m) }

// OnReady is called when a shared upstream has started or restarted; see Peer.
func (r *Router) OnReady(server string) { r.Peer(server, nil).OnReady() }

// OnReady is called when the upstream has started or restarted. It tells the upstream
// the log level and, after a restart, the subscriptions of sessions, and returns when
// that is done. After the first start there is nothing to repeat, since requests wait
// for the start.
func (p Peer) OnReady() {
	p.router.mu.Lock()
	again := p.router.ready[p.conn]
	p.router.ready[p.conn] = true
	if again {
		delete(p.router.levels, p.conn)
	}
	p.router.mu.Unlock()
	p.router.restoreLevel(p.conn)
	if again {
		p.router.resubscribe(p.conn)
	}
}

// OnAsleep is called when the upstream has not started yet, and requests that do not need
// it are answered in its place. OnReady then tells it everything that it has missed.
func (p Peer) OnAsleep() {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	p.router.ready[p.conn] = true
}

// owner returns the origin that a message belongs to: that of the task it names, the
// only call it can belong to, the newest call of the only session with calls in
// flight, or the session that owns the connection. It is nil if nothing is in flight.
// several says that calls of several sessions are in flight, so that the owner is not
// known.
func (p Peer) owner(m wire.Inbound) (o Origin, several bool) {
	var owners []any
	if m.Owners != nil {
		owners = m.Owners()
	}
	if id, ok := wire.GetString(m.Params, "_meta", relatedTask, "taskId"); ok {
		if s := p.router.taskSession(p.conn.server, id); s != nil {
			return newest(owners, s), false
		}
	}
	for i := len(owners) - 1; i >= 0; i-- {
		call, ok := owners[i].(Origin)
		switch {
		case !ok:
		case o == nil:
			o = call
		case call.Session() != o.Session():
			return nil, true
		}
	}
	if o == nil && p.conn.own != nil {
		return p.conn.own, false
	}
	return o, false
}

// newest returns the newest call of a session among owners, or the session itself.
func newest(owners []any, s Session) Origin {
	for i := len(owners) - 1; i >= 0; i-- {
		if call, ok := owners[i].(Origin); ok && call.Session() == s {
			return call
		}
	}
	return s
}

// addressee returns the origin that a request is for: its owner, or the only session.
func (p Peer) addressee(m wire.Inbound) (Origin, *wire.RPCError) {
	o, several := p.owner(m)
	if o != nil {
		return o, nil
	}
	if all := p.router.everyone(p.conn); !several && len(all) == 1 {
		return all[0], nil
	} else if !several && len(all) == 0 {
		return nil, wire.Errorf(wire.CodeInternal, "%s refused: no client is connected", m.Method)
	}
	return nil, p.undecided(m.Method)
}

func (p Peer) undecided(method string) *wire.RPCError {
	return wire.Errorf(wire.CodeInternal, `%s refused: several sessions share upstream %q, and which one this is for is not known `+
		`(set isolation = "session" for the upstream)`, method, p.conn.server)
}
