package route

import (
	"bytes"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// Bounds of the state kept for a session. Beyond them, and without memory for more, the oldest
// entry is forgotten, except that further subscriptions are refused.
const (
	maxTasks         = 4096
	maxElicitations  = 1024
	maxSubscriptions = 4096
	maxEarly         = 256 // statuses of tasks not known yet

	maxID          = 1 << 10  // of a kept id, in bytes
	maxSubscribed  = 16 << 10 // of a URI of a subscription, in bytes
	maxEarlyStatus = 16 << 10 // of a kept status, in bytes
	entryMemory    = 256      // of an entry without the kept bytes, about, in bytes
)

// client is the state of a session, guarded by Router.mu unless a field has another comment.
type client struct {
	session Session         // constant
	kept    *budget.Account // of the fields with bounds, and of outgoing
	called  policy.History
	level   string // lowest level of log messages; "" if never set
	offered []byte // the capabilities in the initialize result, a raw object
	// tasks are the tasks that upstreams created for the session: servers by id.
	tasks recent[string, string]
	// ownTasks are the tasks that the client created for upstreams: servers by id.
	ownTasks recent[string, string]
	// elicitations are the elicitations of mode "url", which end outside of the protocol: the value
	// reports whether the elicitation has ended.
	elicitations recent[elicitation, bool]
	visited      chan struct{}             // closed when an elicitation ends; nil while no call waits
	topics       map[topic]bool            // subscribed to
	renewed      map[string]bool           // servers whose connection for this session was lost with another replica
	outgoing     map[string]*serialQueue   // notifications being sent, by server
	early        recent[string, []byte]    // status of own tasks not known yet, by id
	handed       recent[uriDigest, string] // servers by the URIs given to the session
}

// taskKey is a task of an upstream.
type taskKey struct{ server, id string }

type elicitation struct{ server, id string }

// keep stores a value, unless the id in the key is too large.
func keep[K comparable, V any](in *recent[K, V], k K, id string, v V) {
	if len(id) <= maxID {
		in.put(k, v, len(id)+entryMemory)
	}
}

// keepStatus stores the status of a task, unless the status or the id is too large. The message
// with the status may be larger.
func keepStatus[K comparable](in *recent[K, []byte], k K, id string, status []byte) {
	if len(id) <= maxID && len(status) <= maxEarlyStatus {
		in.put(k, bytes.Clone(status), len(id)+len(status)+entryMemory)
	}
}

func (r *Router) newClient(s Session) *client {
	kept := r.Budget.OpenKept(BudgetKey(s), "subscriptions and tasks of this client")
	return &client{
		session:      s,
		kept:         kept,
		tasks:        recent[string, string]{limit: maxTasks, kept: kept},
		ownTasks:     recent[string, string]{limit: maxTasks, kept: kept},
		elicitations: recent[elicitation, bool]{limit: maxElicitations, kept: kept},
		topics:       map[topic]bool{},
		renewed:      map[string]bool{},
		outgoing:     map[string]*serialQueue{},
		early:        recent[string, []byte]{limit: maxEarly, kept: kept},
		handed:       recent[uriDigest, string]{limit: maxHanded, kept: kept},
	}
}

// with calls f with the state of a session and r.mu held, unless the session has ended.
func (r *Router) with(s Session, f func(c *client)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.clients[s]; ok {
		f(c)
	}
}

// sessions returns the sessions for which f is true.
func (r *Router) sessions(f func(c *client) bool) []Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Session
	for s, c := range r.clients {
		if f(c) {
			found = append(found, s)
		}
	}
	return found
}

// everyone returns the sessions that use a connection: the owner, or, for a shared connection, all
// sessions whose clients may use the server.
func (r *Router) everyone(at connKey) []Session {
	return r.sessions(func(c *client) bool { return c.uses(at) })
}

// uses reports whether the session of a client uses a connection.
func (c *client) uses(at connKey) bool {
	return (at.own == nil || at.own == c.session) && MayUse(c.session, at.server)
}

// alone reports whether s is the only session.
func (r *Router) alone(s Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.clients) == 1 && r.clients[s] != nil
}

// Changed tells the sessions of a scope that a list has changed; see Session.Changed.
func (r *Router) Changed(scope *catalog.Scope, surface wire.Surface, notice []byte) {
	for _, s := range r.sessions(func(c *client) bool { return r.scope(c.session) == scope }) {
		s.Changed(surface, notice)
	}
}
