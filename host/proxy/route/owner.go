package route

import (
	"context"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// relatedTask is the _meta key for the task to which a message belongs (revision 2025-11-25,
// basic/utilities/tasks).
const relatedTask = "io.modelcontextprotocol/related-task"

// Peer handles the requests and notifications that an upstream sends on its own initiative over a
// connection.
type Peer struct {
	router *Router
	conn   connKey
}

// Peer returns the Peer of a server's shared connection (own is nil), or of the server's connection
// for the session own; see Connection.Own.
func (r *Router) Peer(server string, own Session) Peer { return Peer{r, connKey{server, own}} }

// OnNotification delivers a notification of a shared upstream; see Peer.
func (r *Router) OnNotification(server string, m wire.Inbound) { r.Peer(server, nil).OnNotification(m) }

// OnReady is called when a shared upstream has started or restarted; see Peer.
func (r *Router) OnReady(server string) { r.Peer(server, nil).OnReady() }

// OnReady is called when the upstream has started or restarted. OnReady tells the upstream the log
// level and, after a restart, the subscriptions of sessions, and then returns. After the first
// start nothing is to be repeated, since requests wait for the start.
func (p Peer) OnReady() {
	p.router.mu.Lock()
	again := p.router.ready[p.conn]
	p.router.ready[p.conn] = true
	delete(p.router.asleep, p.conn)
	if again {
		delete(p.router.levels, p.conn)
	}
	p.router.mu.Unlock()
	p.router.restoreLevel(p.conn)
	if again {
		p.router.resubscribe(p.conn)
	}
}

// OnAsleep is called when the upstream has not started yet, and requests that do not need the
// upstream are answered in its place. OnReady then tells the upstream the missed levels and
// subscriptions.
func (p Peer) OnAsleep() {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	p.router.ready[p.conn], p.router.asleep[p.conn] = true, true
}

// owner returns the origin to which a notification belongs: the origin of the task in the
// notification, or of the only call in question. If several calls of a single client are in flight,
// the owner is the newest of them; without calls, the session that owns the connection, or nil.
// several reports that calls of several clients are in flight, so that the owner is not known.
func (p Peer) owner(m wire.Inbound) (o Origin, several bool) {
	if t := p.bridgedTask(m); t != nil {
		return t, false
	}
	calls := origins(m)
	if s := p.taskOwner(m); s != nil {
		return newestOf(calls, s), false
	}
	switch {
	case len(calls) == 0 && p.conn.own != nil:
		return p.conn.own, false
	case len(calls) == 0:
		return nil, false
	case areOfSeveral(calls):
		return nil, true
	}
	return newest(likely(calls), canBeAsked), false
}

// origins returns the origins of the calls to which a message may belong, oldest first.
func origins(m wire.Inbound) []Origin {
	if m.Owners == nil {
		return nil
	}
	return originsOf(m.Owners())
}

func originsOf(owners []any) []Origin {
	calls := make([]Origin, 0, len(owners))
	for _, owner := range owners {
		if call, ok := owner.(Origin); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

// taskOwner returns the session of the task in a message, nil for none.
func (p Peer) taskOwner(m wire.Inbound) Session {
	id, ok := wire.GetString(m.Params, "_meta", relatedTask, "taskId")
	if !ok {
		return nil
	}
	return p.router.taskSession(p.conn.server, id)
}

// newestOf returns the newest call of a session, or the session itself without a call.
func newestOf(calls []Origin, s Session) Origin {
	own := slices.DeleteFunc(calls, func(call Origin) bool { return call.Session() != s })
	if len(own) == 0 {
		return s
	}
	return newest(likely(own), canBeAsked)
}

// newest returns the newest call that is fit, or the newest of all if none is fit.
func newest(calls []Origin, fit func(Origin) bool) Origin {
	for i := len(calls) - 1; i >= 0; i-- {
		if fit(calls[i]) {
			return calls[i]
		}
	}
	return calls[len(calls)-1]
}

// areOfSeveral reports whether calls are, or may be, of more than one client.
func areOfSeveral(calls []Origin) bool {
	return areOfSessions(calls) || hasManyClients(calls[0].Session()) && !areOfClient(calls)
}

// areOfClient reports whether a message that belongs to one of calls, all of a session with many
// clients, can be taken for a message about the same request. With a token, the other calls may be
// parked. Without a token they may be calls of any client, and a parked call can send more: further
// questions, or log messages.
func areOfClient(calls []Origin) bool {
	if isAnonymous(calls[0].Session()) {
		return areOfRequest(calls)
	}
	return areOfRequest(likely(calls))
}

func areOfSessions(calls []Origin) bool {
	return slices.ContainsFunc(calls, func(call Origin) bool { return call.Session() != calls[0].Session() })
}

// areOfRequest reports whether all calls are made for the same request of a client.
func areOfRequest(calls []Origin) bool {
	return !slices.ContainsFunc(calls, func(call Origin) bool { return requestOf(call) != requestOf(calls[0]) })
}

// requestOf returns the request of a client for which a call of a script is made, or the origin
// itself.
func requestOf(o Origin) Origin {
	for {
		of, ok := o.(interface{ Unwrap() Origin })
		if !ok {
			return o
		}
		o = of.Unwrap()
	}
}

// likely returns the calls without the parked calls, unless all are parked: a server that waits for
// an answer hardly sends anything else for the same call.
func likely(calls []Origin) []Origin {
	var open []Origin
	for _, call := range calls {
		if standingOf(call) != Parked {
			open = append(open, call)
		}
	}
	if open == nil {
		return calls
	}
	return open
}

// Standing is the state of a request with regard to questions for the client.
type Standing int

const (
	// Open: the request can ask.
	Open Standing = iota
	// Parked: the client was asked, and the client's next request has not come yet.
	Parked
	// Closed: the request cannot ask, because the request is over or of a method without questions.
	Closed
)

// standingOf returns the Standing of an origin, Open for an origin without a method Standing.
func standingOf(o Origin) Standing {
	if r, ok := requestOf(o).(interface{ Standing() Standing }); ok {
		return r.Standing()
	}
	return Open
}

func canBeAsked(o Origin) bool { return standingOf(o) == Open }

// guessed reports whether a request may belong to another call than the call of o: the calls in
// flight cannot be told apart.
func guessed(ctx context.Context, m wire.Inbound, o Origin) bool {
	calls := origins(m)
	if m.Await != nil {
		calls = originsOf(m.Await(ctx, func([]any) bool { return true }))
	}
	return slices.ContainsFunc(calls, func(call Origin) bool {
		return call != o && (requestOf(call) == requestOf(o) || canBeAsked(call))
	})
}

// hasManyClients reports whether the requests of a session come from several clients, such as
// clients with the same credentials over HTTP in the stateless era. A message for a request of a
// client must not reach another client.
func hasManyClients(s Session) bool {
	shared, ok := s.(interface{ ManyClients() bool })
	return ok && shared.ManyClients()
}
