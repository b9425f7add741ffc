package route

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// OnRequest answers a request of a shared upstream; see Peer.
func (r *Router) OnRequest(ctx context.Context, server string, m wire.Inbound) wire.Reply {
	return r.Peer(server, nil).OnRequest(ctx, m)
}

// OnRequest answers a request of the upstream other than ping: the client that the request is for
// is asked, if the client supports the request. When ctx ends, the client is told that the request
// is cancelled, and the reply is ignored.
func (p Peer) OnRequest(ctx context.Context, m wire.Inbound) wire.Reply {
	switch m.Method {
	case protocol.MethodTasksGet, protocol.MethodTasksResult, protocol.MethodTasksCancel:
		return p.clientTask(ctx, m)
	}
	o, reply, err := p.askOwner(ctx, m)
	for again := true; again; {
		switch {
		case errors.Is(err, ErrAnswered):
			m, again = withoutAnswered(ctx, m, o)
		case errors.Is(err, ErrAsksLater):
			m, again = withoutRequest(ctx, m, o)
		default:
			again = false
		}
		if again {
			o, reply, err = p.askOwner(ctx, m)
		}
	}
	if err != nil {
		return p.unasked(ctx, m, err)
	}
	if m.Method == protocol.MethodTasksList {
		return p.ownClientTasks(o.Session(), reply)
	}
	if id, ok := taskOf(m.Params, reply); ok {
		p.rememberClientTask(o.Session(), id)
	}
	return reply
}

// askOwner asks the client that a request is for, if the client supports the request. Without this
// client, o is nil and the error is a *wire.RPCError.
func (p Peer) askOwner(ctx context.Context, m wire.Inbound) (o Origin, reply wire.Reply, err error) {
	o, bad := p.addressee(ctx, m)
	if bad == nil {
		bad = permits(o.Client(), m)
	}
	if bad != nil {
		p.router.Log.Warn("request of an upstream refused", "upstream", p.conn.server, "method", m.Method, "err", bad)
		return nil, wire.Reply{}, bad
	}
	if id, ok := wire.GetString(m.Params, "elicitationId"); ok && m.Method == protocol.MethodElicit {
		p.router.noteElicitation(o.Session(), elicitation{p.conn.server, id})
	}
	reply, err = p.ask(ctx, o, m)
	return o, reply, err
}

// unasked returns the reply to a request that no client has answered.
func (p Peer) unasked(ctx context.Context, m wire.Inbound, err error) wire.Reply {
	var bad *wire.RPCError
	if errors.As(err, &bad) {
		return wire.Reply{Error: bad.Raw()}
	}
	if errors.Is(err, ErrAsksLater) {
		return fail(wire.CodeInternal, "%s: %v", m.Method, err)
	}
	p.router.warn(ctx, err, "a client did not answer an upstream", "upstream", p.conn.server, "method", m.Method)
	return fail(wire.CodeInternal, "%s: no answer of the client: %v", m.Method, err)
}

// ask sends a request of the upstream to a client. The client's progress goes back with the
// upstream's token, completely before the answer.
func (p Peer) ask(ctx context.Context, o Origin, m wire.Inbound) (wire.Reply, error) {
	call := wire.Call{Method: m.Method, Params: m.Params, Unsure: guessed(ctx, m, o)}
	progress := newSerialQueue()
	defer progress.close()
	if token, ok := wire.Get(m.Params, "_meta", "progressToken"); ok {
		call.Progress = func(params []byte) {
			params, err := wire.Set(params, token, "progressToken")
			if err != nil {
				return // not an object, so not progress
			}
			progress.add(ctx, func() { p.notify(ctx, protocol.NotificationProgress, params) })
		}
	}
	return o.Ask(ctx, call)
}

// notify sends a notification to an available upstream.
func (p Peer) notify(ctx context.Context, method string, params []byte) {
	c, ok := p.router.to(p.conn.own, p.conn.server)
	if !ok {
		return
	}
	if err := c.Notify(ctx, method, params); err != nil {
		p.router.Log.Debug("notification for an upstream not sent", "upstream", p.conn.server, "method", method, "err", err)
	}
}

// permits checks that a client declared support for a request. The upstream must not send other
// requests (revision 2025-11-25, client/sampling, client/elicitation, client/roots), but does not
// know each client. Unknown methods are left to the client.
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
	return nil // a client without declared modes supports forms
}

// TakesForms reports whether a client can be asked by a form, which is an elicitation.
func TakesForms(o Origin) bool {
	return permits(o.Client(), wire.Inbound{Method: protocol.MethodElicit}) == nil
}

// rememberClientTask remembers a task that a client created for the upstream.
func (p Peer) rememberClientTask(s Session, id string) {
	r := p.router
	var status []byte
	var early bool
	r.with(s, func(c *client) {
		keep(&c.ownTasks, id, id, p.conn.server)
		status, early = c.early.take(id)
	})
	if early {
		r.notifyUpstream(s, p.conn.server, protocol.NotificationTaskStatus, status, nil)
	}
}

// clientTask asks the client that created a task for the upstream.
func (p Peer) clientTask(ctx context.Context, m wire.Inbound) wire.Reply {
	id, ok := wire.GetString(m.Params, "taskId")
	if !ok {
		return fail(wire.CodeInvalidParams, "%s: params.taskId must be a string", m.Method)
	}
	makers := p.router.sessions(func(c *client) bool {
		server, ok := c.ownTasks.get(id)
		return ok && server == p.conn.server && (p.conn.own == nil || p.conn.own == c.session)
	})
	switch len(makers) {
	case 0:
		return fail(wire.CodeInvalidParams, "%s: no client has a task %q for upstream %q", m.Method, id, p.conn.server)
	case 1:
		reply, err := p.ask(ctx, makers[0], m)
		if err != nil {
			return p.unasked(ctx, m, err)
		}
		return reply
	}
	return wire.Reply{Error: p.undecided(m.Method).Raw()}
}

// ownClientTasks removes the tasks for other upstreams from a client's list.
func (p Peer) ownClientTasks(s Session, reply wire.Reply) wire.Reply {
	return keepTasks(reply, func(id string) (own bool) {
		p.router.with(s, func(c *client) {
			server, ok := c.ownTasks.get(id)
			own = ok && server == p.conn.server
		})
		return own
	})
}
