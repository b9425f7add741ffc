package route

import (
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// scope returns the part of the catalog for the client of a session and its scripts: everything for
// a nil session.
func (r *Router) scope(s Session) *catalog.Scope {
	return r.Catalog.For(RightsOf(s))
}

// RightsOf returns the rights of the client of a session. A nil session, which has no client, has
// rights that are not narrowed.
func RightsOf(s Session) *bearer.Rights {
	if s == nil {
		return nil
	}
	return s.Rights()
}

// MayUse reports whether the client of a session may use something of a server. The result is true
// for a nil session, which has no client.
func MayUse(s Session, server string) bool { return !RightsOf(s).HidesServer(server) }

// permitted returns why the rights of a client, or pins, do not permit a request; nil if they
// do. A toolCall checks by itself whether an upstream's tool may be called.
func (r *Router) permitted(s Session, q *policy.Request) error {
	rights := RightsOf(s)
	switch q.Kind {
	case policy.KindPrompt:
		if err := r.scope(s).PermittedPrompt(q.Server, q.Name); err != nil {
			return err
		}
		return r.scope(s).PinnedPrompt(q.Server, q.Name)
	case policy.KindResource:
		if err := r.scope(s).PermittedResource(q.Server, q.Name); err != nil {
			return err
		}
		return r.scope(s).PinnedURI(q.Server, q.Name)
	case policy.KindMethod:
		if rights.Narrows() { // an unknown method can have any meaning
			return &catalog.HiddenError{Server: q.Server, Tool: q.Name, Token: true}
		}
	case policy.KindCompletion: // of a prompt or a template
		if q.Name == "" && rights.Narrows() || !rights.ShowsResource(q.Server, q.Name) {
			return &catalog.HiddenError{Server: q.Server, Tool: q.Name, Surface: wire.Prompts, Token: true}
		}
		if err := r.scope(s).PinnedPrompt(q.Server, q.Name); err != nil {
			return err
		}
		return r.scope(s).PinnedURI(q.Server, q.Name)
	case policy.KindTool:
		own := q.Server == policy.SavedTools || q.Server == policy.BuiltinTools
		if own && (rights.Hides(q.Server, q.Name) || q.Caller.Script == "" && !rights.Exposes(q.Server, q.Name)) {
			return &catalog.HiddenError{Server: q.Server, Tool: q.Name, Token: true}
		}
	}
	return nil
}

// Recheck ends the subscriptions no longer permitted by the rights of their sessions, or by policy.
// After the return, no update reaches them; upstreams are told in the background.
func (r *Router) Recheck() {
	type subscriber struct {
		topic
		Session
		decided *gated
	}
	var all []subscriber
	r.mu.Lock()
	for t, sessions := range r.topics {
		for s, g := range sessions {
			all = append(all, subscriber{t, s, g})
		}
	}
	r.mu.Unlock()
	for _, one := range all {
		if r.scope(one.Session).PermittedResource(one.conn.server, one.uri) != nil || !one.decided.lasts() {
			r.endSubscription(one.topic, one.Session)
		}
	}
}
