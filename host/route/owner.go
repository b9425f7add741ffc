package route

import (
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// relatedTask is the _meta key that says which task a message belongs to
// (revision 2025-11-25, basic/utilities/tasks).
const relatedTask = "io.modelcontextprotocol/related-task"

// Peer is the upstream's side of a connection: it takes what the upstream sends
// on its own account.
type Peer struct {
	router *Router
	place  place
}

// Peer is the side of the upstream of a connection to a server, shared (own is
// nil) or of the session own: as in Connection.
func (r *Router) Peer(server string, own Session) Peer { return Peer{r, place{server, own}} }

// OnNotification takes a notification of a shared upstream; see Peer.
func (r *Router) OnNotification(server string, m wire.Inbound) { r.Peer(server, nil).OnNotification(m) }

// OnReady says that a shared upstream has started, or started again; see Peer.
func (r *Router) OnReady(server string) { r.Peer(server, nil).OnReady() }

// OnReady says that the upstream has started, or started again: it is told what
// sessions are subscribed to, and the level of log messages. It returns when
// that is done. The first time, what it was told it was told just now: requests
// wait for the start.
func (p Peer) OnReady() {
	p.router.mu.Lock()
	again := p.router.ready[p.place]
	p.router.ready[p.place] = true
	if again {
		delete(p.router.levels, p.place)
	}
	p.router.mu.Unlock()
	p.router.levelAgain(p.place)
	if again {
		p.router.resubscribe(p.place)
	}
}

// OnAsleep says that the upstream has not started yet, and that requests are
// answered for it that need no start: it is told all that it has missed when it
// is ready.
func (p Peer) OnAsleep() {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	p.router.ready[p.place] = true
}

// owner is the origin that a message belongs to: that of the task it names; or
// the only call that it may belong to; or the newest one of the only session
// with calls in flight; or the session that has the connection for itself. It
// is nil when nothing is in flight. When calls of several sessions are, it
// cannot be told.
func (p Peer) owner(m wire.Inbound) (o Origin, several bool) {
	var owners []any
	if m.Owners != nil {
		owners = m.Owners()
	}
	if id, ok := wire.GetString(m.Params, "_meta", relatedTask, "taskId"); ok {
		if s := p.router.taskSession(p.place.server, id); s != nil {
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
	if o == nil && p.place.own != nil {
		return p.place.own, false
	}
	return o, false
}

// newest is the newest origin of a session among owners, else the session.
func newest(owners []any, s Session) Origin {
	for i := len(owners) - 1; i >= 0; i-- {
		if call, ok := owners[i].(Origin); ok && call.Session() == s {
			return call
		}
	}
	return s
}

// addressee is the origin that a request is for: its owner, or the only session
// there is.
func (p Peer) addressee(m wire.Inbound) (Origin, *wire.RPCError) {
	o, several := p.owner(m)
	if o != nil {
		return o, nil
	}
	if all := p.router.everyone(p.place); !several && len(all) == 1 {
		return all[0], nil
	} else if !several && len(all) == 0 {
		return nil, wire.Errorf(wire.CodeInternal, "%s refused: no client is connected", m.Method)
	}
	return nil, p.undecided(m.Method)
}

func (p Peer) undecided(method string) *wire.RPCError {
	return wire.Errorf(wire.CodeInternal, `%s refused: several sessions share upstream %q, and it cannot be told which one this is for `+
		`(set isolation = "session" for the upstream)`, method, p.place.server)
}
