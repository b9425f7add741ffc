package route

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// OnNotification delivers a notification of the upstream other than progress and cancelled. The
// upstream's stream is blocked during the writes to clients.
func (p Peer) OnNotification(m wire.Inbound) {
	switch m.Method {
	case wire.Tools.ChangedMethod(), wire.Resources.ChangedMethod(), wire.Prompts.ChangedMethod():
		// The lists of the upstream are read again, and the catalog finds out whether
		// clients see a change.
	case protocol.NotificationMessage:
		p.message(m)
	case protocol.NotificationResourceUpdated:
		p.updated(m)
	case protocol.NotificationTaskStatus:
		p.taskStatus(m)
	case protocol.NotificationTask:
		p.taskChanged(m)
	case protocol.NotificationElicitationDone:
		p.elicited(m)
	default:
		p.tell(m, m.Params, p.router.everyone(p.conn))
	}
}

// message delivers a log message to the sessions that want the level, with the name of the upstream
// as logger.
func (p Peer) message(m wire.Inbound) {
	params := m.Params
	if p.router.Catalog.Prefix(p.conn.server) != "" {
		name := p.conn.server
		if logger, ok := wire.GetString(params, "logger"); ok && logger != "" {
			name += "/" + logger
		}
		named, err := wire.Set(params, wire.Quote(name), "logger")
		if err != nil {
			p.router.Log.Warn("malformed log message", "upstream", p.conn.server, "err", err)
			return
		}
		params = named
	}
	level, _ := wire.GetString(params, "level")
	p.tell(m, params, p.router.listeners(p.conn, level))
}

// tell delivers a notification to the owner, if to has the owner, or to all of to if the
// notification has no owner. If the owner cannot be determined, the notification only goes to our
// own log: no other session may get the notification.
func (p Peer) tell(m wire.Inbound, params []byte, to []Session) {
	o, several := p.owner(m)
	if several {
		p.router.Log.Info("a notification of an upstream belongs to one of several sessions, but which one is not known",
			"upstream", p.conn.server, "method", m.Method, "params", excerpt(params))
		return
	}
	for _, s := range to {
		switch {
		case o == nil:
			s.Notify(m.Method, params)
		case o.Session() == s:
			o.Notify(m.Method, params)
		}
	}
}

// excerpt returns the beginning of a message, for the log.
func excerpt(raw []byte) string { return display.Excerpt(string(raw), 1<<10) }

// updated delivers the update of a resource to the sessions that are subscribed to the resource or
// to a resource above (revision 2025-11-25, schema, ResourceUpdatedNotification). An update without
// a subscription is sent to the session of the connection, if the connection has a single session.
func (p Peer) updated(m wire.Inbound) {
	uri, _ := wire.GetString(m.Params, "uri")
	to := p.router.subscribers(p.conn, uri)
	if len(to) == 0 {
		to = p.router.everyone(p.conn)
		if len(to) != 1 {
			p.router.Log.Debug("update of a resource that nobody is subscribed to", "upstream", p.conn.server, "uri", uri)
			return
		}
	}
	for _, s := range to {
		if p.router.mayHear(s, topic{p.conn, uri}) {
			s.Notify(m.Method, m.Params)
		}
	}
}

// mayHear reports whether a session may get updates of a resource. Without a subscription to this
// very resource, policy must allow the update.
func (r *Router) mayHear(s Session, of topic) bool {
	if r.scope(s).PermittedResource(of.conn.server, of.uri) != nil {
		return false
	}
	if !r.gates() {
		return true
	}
	r.mu.Lock()
	_, subscribed := r.topics[of][s]
	r.mu.Unlock()
	return subscribed || r.decide(s, policy.Request{Kind: policy.KindResource, Server: of.conn.server, Name: of.uri}, nil).decided().Allowed()
}

// subscribers returns the sessions that are subscribed to a resource or to a resource above. The
// URI of a resource above is the URI up to a slash, a question mark or a #.
func (r *Router) subscribers(at connKey, uri string) []Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Session
	seen := map[Session]bool{}
	add := func(above string) {
		for s := range r.topics[topic{at, above}] {
			if !seen[s] && r.clients[s] != nil {
				seen[s] = true
				found = append(found, s)
			}
		}
	}
	add(uri)
	for i := 1; i < min(len(uri), maxPath); i++ {
		if uri[i-1] == '/' || strings.IndexByte("/?#", uri[i]) >= 0 {
			add(uri[:i])
		}
	}
	return found
}

// maxPath bounds the part of a URI that is searched for resources above, in bytes.
const maxPath = 4096

// taskStatus delivers the status of a task to the session with the task.
func (p Peer) taskStatus(m wire.Inbound) {
	id, _ := wire.GetString(m.Params, "taskId")
	if t := p.router.bridged.find(watchKey{p.conn, id}); t != nil { // for the watchers of the task
		t.changed()
		return
	}
	if s := p.router.taskReader(taskKey{p.conn.server, id}, m.Params); s != nil {
		s.Notify(m.Method, m.Params)
	}
}
