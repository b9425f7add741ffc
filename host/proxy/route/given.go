package route

import (
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// given notes the labels of a reply for a client. An error also counts.
func (c *toolCall) given(reply wire.Reply) {
	c.router.noteURIs(sessionOf(c.origin), c.server, reply)
	if c.agent {
		c.router.given(c.origin, c.server, c.tool, reply)
	}
}

// given notes the labels of an answer for a client. A request denied here has no answer.
func (r *Router) given(o Origin, server, name string, reply wire.Reply) {
	if r.Labels == nil || o == nil || reply.Denied != nil {
		return
	}
	if set := r.Labels(server, name, reply.Result); set != 0 {
		r.Label(o.Session(), set)
	}
}

// Label notes that the client of a session is given something with labels.
func (r *Router) Label(s Session, set flow.Labels) {
	if set != 0 {
		r.Called(s).Give(policy.Given{Private: set.Has(flow.Private), Untrusted: set.Has(flow.Untrusted)})
	}
}

// Called returns the calls and results of a session; nil if the session has ended.
func (r *Router) Called(s Session) (h *policy.History) {
	r.with(s, func(c *client) { h = &c.called })
	return h
}
