package route

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// OnNotification takes a notification of the upstream, all but progress and
// cancelled. It holds up the upstream's stream while it writes to clients.
func (p Peer) OnNotification(m wire.Inbound) {
	switch m.Method {
	case wire.Tools.ChangedMethod(), wire.Resources.ChangedMethod(), wire.Prompts.ChangedMethod():
		// It is listed again, and the catalog tells whether agents see a change.
	case protocol.NotificationMessage:
		p.message(m)
	case protocol.NotificationResourceUpdated:
		p.updated(m)
	case protocol.NotificationTaskStatus:
		p.taskStatus(m)
	case protocol.NotificationElicitationDone:
		p.elicited(m)
	default:
		p.tell(m, m.Params, p.router.everyone(p.place))
	}
}

// message takes a log message to those who want messages of its level, under
// the name of the upstream.
func (p Peer) message(m wire.Inbound) {
	params := m.Params
	if p.router.Catalog.Prefix(p.place.server) != "" {
		name := p.place.server
		if logger, ok := wire.GetString(params, "logger"); ok && logger != "" {
			name += "/" + logger
		}
		named, err := wire.Set(params, wire.Quote(name), "logger")
		if err != nil {
			p.router.Log.Warn("malformed log message", "upstream", p.place.server, "err", err)
			return
		}
		params = named
	}
	level, _ := wire.GetString(params, "level")
	p.tell(m, params, p.router.listeners(p.place, level))
}

// tell takes a notification to its owner if that is one of those who may get
// it, and to all of them if it has none. Where the owner cannot be told, it only
// goes to our own log: nothing may reach another session.
func (p Peer) tell(m wire.Inbound, params []byte, to []Session) {
	o, several := p.owner(m)
	if several {
		p.router.Log.Info("a notification of an upstream belongs to one of several sessions, and it cannot be told to which",
			"upstream", p.place.server, "method", m.Method, "params", clip(params))
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

// clip bounds what is logged of a message, in bytes.
func clip(raw []byte) string {
	const most = 1 << 10
	if len(raw) > most {
		return strings.ToValidUTF8(string(raw[:most]), "") + "..."
	}
	return string(raw)
}

// updated takes the news of a resource to the sessions that are subscribed to
// it, or to a resource above it (revision 2025-11-25, schema,
// ResourceUpdatedNotification). What nobody subscribed to goes to the session
// that has the upstream to itself.
func (p Peer) updated(m wire.Inbound) {
	uri, _ := wire.GetString(m.Params, "uri")
	to := p.router.subscribers(p.place, uri)
	if len(to) == 0 {
		to = p.router.everyone(p.place)
		if len(to) != 1 {
			p.router.Log.Debug("update of a resource that nobody is subscribed to", "upstream", p.place.server, "uri", uri)
			return
		}
	}
	for _, s := range to {
		s.Notify(m.Method, m.Params)
	}
}

// subscribers are the sessions that are subscribed to a resource or to one
// above it: with what is left of its URI at a slash, a question mark or a #.
func (r *Router) subscribers(at place, uri string) []Session {
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

// maxPath bounds where resources above a URI are looked for, in bytes.
const maxPath = 4096

// taskStatus takes the status of a task to the session that has it.
func (p Peer) taskStatus(m wire.Inbound) {
	id, _ := wire.GetString(m.Params, "taskId")
	if s := p.router.taskReader(taskKey{p.place.server, id}, m.Params); s != nil {
		s.Notify(m.Method, m.Params)
	}
}

// elicited takes the end of an elicitation outside of the protocol to the
// session that was sent there.
func (p Peer) elicited(m wire.Inbound) {
	id, _ := wire.GetString(m.Params, "elicitationId")
	e := elicitation{p.place.server, id}
	to := p.router.sessions(func(c *client) bool {
		_, ok := c.elicitations.get(e)
		return ok
	})
	if len(to) == 0 {
		to = p.router.everyone(p.place)
		if len(to) != 1 {
			p.router.Log.Debug("end of an elicitation that no session knows of", "upstream", p.place.server, "id", id)
			return
		}
	}
	for _, s := range to {
		s.Notify(m.Method, m.Params)
	}
}
