package route

import "github.com/mcp-metatool/mcp-metatool/host/wire"

// What is remembered of a session is bounded; beyond that, the oldest is
// forgotten, but subscriptions are refused.
const (
	maxTasks         = 4096
	maxElicitations  = 1024
	maxSubscriptions = 4096
	maxEarly         = 256 // status of tasks that are not known yet

	maxID          = 1 << 10  // bytes of an id that is remembered
	maxSubscribed  = 16 << 10 // bytes of a URI that can be subscribed to
	maxEarlyStatus = 16 << 10 // bytes of a status that is kept
)

// client is all that the router remembers of a session. It is guarded by
// Router.mu, save what says otherwise.
type client struct {
	session Session // constant
	level   string  // of log messages; "": never asked for
	offered []byte  // the capabilities that it was told of, a raw object
	// tasks are those that upstreams made for the session: servers by id.
	tasks recent[string, string]
	// ownTasks are those that the client made for upstreams: servers by id.
	ownTasks recent[string, string]
	// elicitations that are completed outside of the protocol (mode "url").
	elicitations recent[elicitation, bool]
	topics       map[topic]bool         // subscribed to
	lines        map[string]*line       // notifications on their way, by server
	early        recent[string, []byte] // status of own tasks that are not known yet, by id
}

// taskKey is a task of an upstream.
type taskKey struct{ server, id string }

type elicitation struct{ server, id string }

// keep puts a value under a key, unless the id in the key or the value is too
// large to be remembered.
func keep[K comparable, V any](in *recent[K, V], k K, id string, v V) {
	raw, _ := any(v).([]byte)
	if len(id) <= maxID && len(raw) <= maxEarlyStatus {
		in.put(k, v)
	}
}

func newClient(s Session) *client {
	return &client{
		session:      s,
		tasks:        recent[string, string]{limit: maxTasks},
		ownTasks:     recent[string, string]{limit: maxTasks},
		elicitations: recent[elicitation, bool]{limit: maxElicitations},
		topics:       map[topic]bool{},
		lines:        map[string]*line{},
		early:        recent[string, []byte]{limit: maxEarly},
	}
}

// with calls f with what is remembered of a session, unless it has left.
func (r *Router) with(s Session, f func(c *client)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.clients[s]; ok {
		f(c)
	}
}

// sessions are those for which f holds.
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

// everyone are all sessions, or the one that owns a connection.
func (r *Router) everyone(at place) []Session {
	return r.sessions(func(c *client) bool { return at.own == nil || at.own == c.session })
}

// alone tells whether s is the only session.
func (r *Router) alone(s Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.clients) == 1 && r.clients[s] != nil
}

// Changed tells every session that a list is another.
func (r *Router) Changed(surface wire.Surface) {
	for _, s := range r.everyone(place{}) {
		s.Changed(surface)
	}
}
