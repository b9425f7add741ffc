package route

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// OnRequest answers a request of a shared upstream; see Peer.
func (r *Router) OnRequest(ctx context.Context, server string, m wire.Inbound) wire.Reply {
	return r.Peer(server, nil).OnRequest(ctx, m)
}

// OnRequest answers a request of the upstream, all but ping: it asks the client
// that the request is for, if that client can take it. When ctx ends, the
// client is told that the request is cancelled, and the reply does not matter.
func (p Peer) OnRequest(ctx context.Context, m wire.Inbound) wire.Reply {
	switch m.Method {
	case protocol.MethodTasksGet, protocol.MethodTasksResult, protocol.MethodTasksCancel:
		return p.clientTask(ctx, m)
	}
	o, bad := p.addressee(m)
	if bad == nil {
		bad = permits(o.Session().Client(), m)
	}
	if bad != nil {
		p.router.Log.Warn("request of an upstream refused", "upstream", p.place.server, "method", m.Method, "err", bad)
		return wire.Reply{Error: bad.Raw()}
	}
	if id, ok := wire.GetString(m.Params, "elicitationId"); ok && m.Method == protocol.MethodElicit {
		p.router.noteElicitation(o.Session(), elicitation{p.place.server, id})
	}
	reply := p.ask(ctx, o, m)
	if m.Method == protocol.MethodTasksList {
		return p.ownClientTasks(o.Session(), reply)
	}
	if id, ok := taskOf(m.Params, reply); ok {
		p.rememberClientTask(o.Session(), id)
	}
	return reply
}

// ask sends a request of the upstream to a client. Progress of the client goes
// back under the token of the upstream, all of it before the answer.
func (p Peer) ask(ctx context.Context, o Origin, m wire.Inbound) wire.Reply {
	call := wire.Call{Method: m.Method, Params: m.Params}
	progress := newLine()
	defer progress.close()
	if token, ok := wire.Get(m.Params, "_meta", "progressToken"); ok {
		call.Progress = func(params []byte) {
			params, err := wire.Set(params, token, "progressToken")
			if err != nil {
				return // no object, so no progress
			}
			progress.add(ctx, func() { p.notify(ctx, protocol.NotificationProgress, params) })
		}
	}
	reply, err := o.Ask(ctx, call)
	var bad *wire.RPCError
	switch {
	case err == nil:
		return reply
	case errors.As(err, &bad):
		return wire.Reply{Error: bad.Raw()}
	}
	p.router.warn(ctx, err, "a client did not answer an upstream", "upstream", p.place.server, "method", m.Method)
	return fail(wire.CodeInternal, "%s: no answer of the client: %v", m.Method, err)
}

// notify sends a notification to the upstream, if it is there.
func (p Peer) notify(ctx context.Context, method string, params []byte) {
	c, ok := p.router.to(p.place.own, p.place.server)
	if !ok {
		return
	}
	if err := c.Notify(ctx, method, params); err != nil {
		p.router.Log.Debug("notification for an upstream not sent", "upstream", p.place.server, "method", method, "err", err)
	}
}

// permits tells whether a client declared to take a request: not asking it is
// what the upstream would have done, had it known (revision 2025-11-25,
// client/sampling, client/elicitation, client/roots). Of methods that we do not
// know the client may judge.
func permits(client []byte, m wire.Inbound) *wire.RPCError {
	known, _ := protocol.FindMethod(protocol.Server, m.Method)
	if needs := known.Capability; needs != "" && !declares(client, needs) {
		return wire.Errorf(wire.CodeMethodNotFound, "method not found: the client does not support %s", needs)
	}
	if m.Method != protocol.MethodElicit {
		return nil
	}
	mode, ok := wire.GetString(m.Params, "mode")
	if !ok {
		mode = "form"
	}
	if !declares(client, "elicitation", mode) && (mode != "form" || declares(client, "elicitation", "url")) {
		return wire.Errorf(wire.CodeInvalidParams, "elicitation/create: the client does not support mode %.64q", mode)
	}
	return nil // a client that declares no mode takes forms
}

// noteElicitation remembers who was sent outside of the protocol.
func (r *Router) noteElicitation(s Session, e elicitation) {
	r.with(s, func(c *client) { keep(&c.elicitations, e, e.id, true) })
}

// noteElicitations remembers the elicitations that an error asks for.
func (r *Router) noteElicitations(o Origin, server string, reply wire.Reply) {
	if reply.Error == nil || o == nil || wire.ParseError(reply.Error).Code != protocol.CodeURLElicitationRequired {
		return
	}
	raw, _ := wire.Get(reply.Error, "data", "elicitations")
	all, _ := wire.Elements(raw) // of what is no array, there are none
	for _, e := range all {
		if id, ok := wire.GetString(e, "elicitationId"); ok && wire.ElicitationShape.Check(e) == nil {
			r.noteElicitation(o.Session(), elicitation{server, id})
		}
	}
}

// rememberClientTask remembers a task that a client made for the upstream.
func (p Peer) rememberClientTask(s Session, id string) {
	r := p.router
	var status []byte
	var early bool
	r.with(s, func(c *client) {
		keep(&c.ownTasks, id, id, p.place.server)
		status, early = c.early.take(id)
	})
	if early {
		r.notifyUpstream(s, p.place.server, protocol.NotificationTaskStatus, status)
	}
}

// clientTask asks the client that made a task for the upstream.
func (p Peer) clientTask(ctx context.Context, m wire.Inbound) wire.Reply {
	id, ok := wire.GetString(m.Params, "taskId")
	if !ok {
		return fail(wire.CodeInvalidParams, "%s: params.taskId must be a string", m.Method)
	}
	makers := p.router.sessions(func(c *client) bool {
		server, ok := c.ownTasks.get(id)
		return ok && server == p.place.server && (p.place.own == nil || p.place.own == c.session)
	})
	switch len(makers) {
	case 0:
		return fail(wire.CodeInvalidParams, "%s: no client has a task %q for upstream %q", m.Method, id, p.place.server)
	case 1:
		return p.ask(ctx, makers[0], m)
	}
	return wire.Reply{Error: p.undecided(m.Method).Raw()}
}

// ownClientTasks is a client's list of tasks without those for other upstreams.
func (p Peer) ownClientTasks(s Session, reply wire.Reply) wire.Reply {
	return keepTasks(reply, func(id string) (own bool) {
		p.router.with(s, func(c *client) {
			server, ok := c.ownTasks.get(id)
			own = ok && server == p.place.server
		})
		return own
	})
}
