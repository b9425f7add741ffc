package route

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Kept is the state with which another process can go on with a session, without requests in flight
// and without the state that servers keep for a session by themselves.
type Kept struct {
	// Level is the lowest level of log messages; "" if never set.
	Level string `json:"level,omitempty"`
	// Offered are the capabilities in the result of initialize.
	Offered json.RawMessage `json:"offered,omitempty"`
	// Topics are the resources to which the session is subscribed.
	Topics []KeptTopic `json:"topics,omitempty"`
	// Tasks are the tasks that servers created for the session, newest last: pairs of id and
	// server.
	Tasks [][2]string `json:"tasks,omitempty"`
	// Own are the servers that have had a process or connection for this session alone.
	Own []string `json:"own,omitempty"`
}

// KeptTopic is a resource of a server.
type KeptTopic struct {
	Server string `json:"server"`
	URI    string `json:"uri"`
	// Asked is the rule of the policy because of which a person was asked, who has allowed the
	// subscription; "" if no person was asked.
	Asked string `json:"asked,omitempty"`
}

// maxKeptTasksOf bounds Kept.Tasks.
const maxKeptTasksOf = 256

// Keep returns the state to keep of a session, and the counts of its calls; ok is false if the
// session has not begun, or has ended.
func (r *Router) Keep(s Session) (k Kept, called policy.Counts, ok bool) {
	decided := map[topic]*gated{}
	r.with(s, func(c *client) {
		ok = true
		k.Level, k.Offered = c.level, c.offered
		for t := range c.topics {
			if g, subscribed := r.topics[t][s]; subscribed && g != nil { // the server has accepted the subscription
				decided[t] = g
			}
		}
		for _, id := range c.tasks.order[max(0, len(c.tasks.order)-maxKeptTasksOf):] {
			server, _ := c.tasks.get(id)
			k.Tasks = append(k.Tasks, [2]string{id, server})
		}
		called = c.called.Counts()
		for server := range c.renewed {
			k.Own = append(k.Own, server)
		}
		for at := range r.ready {
			if at.own == s && !c.renewed[at.server] {
				k.Own = append(k.Own, at.server)
			}
		}
	})
	slices.Sort(k.Own)
	for t, g := range decided { // without r.mu, which is locked below g.mu
		k.Topics = append(k.Topics, KeptTopic{t.conn.server, t.uri, g.askedRule()})
	}
	slices.SortFunc(k.Topics, func(a, b KeptTopic) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.URI, b.URI))
	})
	return k, called, ok
}

// Restore begins a session of another process. In the background, servers are told the log level
// and the subscriptions, and the client is told that all lists and resources may have changed,
// since the missed changes are unknown.
func (r *Router) Restore(s Session, k Kept, called policy.Counts) {
	c := r.newClient(s)
	c.level, c.offered = k.Level, k.Offered
	c.called.Restore(called)
	for _, server := range k.Own {
		c.renewed[server] = true
	}
	for _, t := range k.Tasks {
		keep(&c.tasks, t[0], t[0], t[1])
	}
	r.mu.Lock()
	r.clients[s] = c
	r.mu.Unlock()
	if k.Level != "" {
		r.hasLevels.Store(true)
	}
	for _, surface := range []wire.Surface{wire.Tools, wire.Resources, wire.Prompts} {
		if has(k.Offered, surface.Capability()) {
			s.Changed(surface, nil)
		}
	}
	topics := map[string][]KeptTopic{}
	for _, t := range k.Topics[:min(len(k.Topics), maxSubscriptions)] {
		topics[t.Server] = append(topics[t.Server], t)
	}
	if k.Level != "" {
		for _, server := range r.scope(s).Upstreams() {
			if topics[server] == nil {
				topics[server] = []KeptTopic{}
			}
		}
	}
	for server, kept := range topics {
		r.inBackground(func() { r.restoreAt(s, server, kept) })
	}
}

// restoreAt restores the log level and the subscriptions of a session at a server.
func (r *Router) restoreAt(s Session, server string, kept []KeptTopic) {
	to, ok := r.to(s, server)
	if !ok {
		return
	}
	var topics []topic
	for _, k := range kept {
		t := topic{to.key(), k.URI}
		if r.restoreSubscriber(s, to, t, k.Asked) { // before the server is asked: the first update may come with the answer
			topics = append(topics, t)
		}
	}
	if len(topics) > 0 { // without topics, the server is not waited for: OnReady sets the level
		if err := to.Ready(r.ctx); err != nil {
			r.Log.Warn("subscriptions of a session that another replica had wait for their server", "upstream", server, "err", err)
			return
		}
	}
	r.restoreLevel(to.key())
	for _, t := range topics {
		if err := r.subscribeAgain(t); err != nil {
			r.Log.Warn("subscription lost: the server refuses it", "upstream", server, "uri", t.uri, "err", err)
			r.endSubscription(t, s)
			continue
		}
		s.Notify(protocol.NotificationResourceUpdated, wire.Marshal(map[string]string{"uri": t.uri}))
	}
}

// restoreSubscriber makes a session a subscriber again, if policy and rights still permit the
// subscription.
func (r *Router) restoreSubscriber(s Session, to serverConn, t topic, asked string) bool {
	if len(t.uri) > maxSubscribed || r.scope(s).PermittedResource(t.conn.server, t.uri) != nil {
		return false
	}
	decided := r.resource(Call{Origin: s}, to, t.uri)
	if asked != "" {
		decided.request.Approved, decided.asked = true, policy.Decision{Action: policy.Ask, Rule: asked}
	}
	if !decided.lasts() {
		return false
	}
	if before, err := r.addSubscriber(t, s); before || err != nil {
		return false
	}
	r.keepSubscriber(t, s, decided)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, subscribed := r.topics[t][s]
	return subscribed
}

// askedRule returns the rule because of which a person was asked, "" for none.
func (g *gated) askedRule() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked.Rule
}

// ErrRenewed reports that the state of a session in a server was lost with another replica.
var ErrRenewed = errors.New("its process or connection for this session was lost with the replica that had it, together with what the server has kept there; there is a new one now (if that does not matter, make the call again)")

// renewed returns ErrRenewed for the first call of a server that had a connection for this session
// alone in another replica, so that no client takes the new connection for the old connection.
func (r *Router) renewed(s Session, to serverConn, take bool) (err error) {
	if to.Own == nil {
		return nil
	}
	r.with(s, func(c *client) {
		if c.renewed[to.server] {
			err = fmt.Errorf("server %q: %w", to.server, ErrRenewed)
			if take {
				delete(c.renewed, to.server)
			}
		}
	})
	return err
}
