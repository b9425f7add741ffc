package route

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// toolCall is a call of a tool that is forwarded to its upstream. All of them take the
// same path: request makes the upstream's request, and conclude makes the reply from
// its outcome. In between, either the caller waits (answer), or completed is called
// with the outcome (Submit).
//
// A toolCall is the wire.Permit of its request: whether the tool may be called is
// checked when the request is written.
type toolCall struct {
	router       *Router
	origin       Origin   // nil if no client has asked for the call
	server, tool string   // real names
	agent        bool     // an agent calls it, not a script
	task         bool     // the call is to become a task
	observer     Observer // nil if the call is not observed
	start        time.Time
	sent         []byte    // the params as they were sent, if there is an observer
	to           Responder // only of a submitted call
}

// agentCall makes the toolCall for a request of a client.
func (r *Router) agentCall(call Call, entry catalog.Entry, task bool) *toolCall {
	c := &toolCall{router: r, origin: call.Origin, server: entry.Server, tool: entry.Tool, agent: true, task: task}
	if r.Observer != nil && r.Observer.Observes() {
		c.observer, c.start = r.Observer, time.Now()
	}
	return c
}

// request returns the request for the upstream, with the tool's real name.
func (c *toolCall) request(params []byte, progress func([]byte)) (wire.Call, error) {
	params, err := wire.Set(params, wire.Quote(c.tool), "name")
	out := wire.Call{Method: protocol.MethodToolsCall, Params: params, Progress: progress, Permit: c}
	if c.origin != nil {
		out.Owner = c.origin
	}
	if c.observer != nil {
		out.Sent = func(params []byte) { c.sent = params }
	}
	return out, err
}

// Permitted implements wire.Permit.
func (c *toolCall) Permitted() error { return c.router.Catalog.Permitted(c.server, c.tool, c.agent) }

// answer makes the call and waits for its reply.
func (c *toolCall) answer(ctx context.Context, params []byte, progress func([]byte)) wire.Reply {
	up, ok := c.router.to(sessionOf(c.origin), c.server)
	if !ok {
		return c.observed(ctx, wire.Reply{Result: ErrorResult(fmt.Sprintf("upstream %q is not configured", c.server))})
	}
	out, err := c.request(params, progress)
	if err != nil {
		return c.observed(ctx, fail(wire.CodeInvalidParams, "tools/call: params: %v", err))
	}
	reply, err := up.Call(ctx, out)
	return c.conclude(ctx, reply, err)
}

// conclude returns the reply to the client or script. It may wait for the client.
func (c *toolCall) conclude(ctx context.Context, reply wire.Reply, err error) wire.Reply {
	if err != nil {
		reply = c.router.unanswered(ctx, c.server, c.tool, err)
	} else {
		c.announce(c.note(reply))
	}
	return c.observed(ctx, reply)
}

// note remembers the task that a reply creates, and the elicitations that it asks for.
// early is a status of the task that arrived before the reply; nil for none.
func (c *toolCall) note(reply wire.Reply) (early []byte) {
	if c.origin == nil {
		return nil
	}
	if c.task && reply.Result != nil {
		if id, ok := wire.GetString(reply.Result, "task", "taskId"); ok {
			early = c.router.takeTask(c.origin.Session(), taskKey{c.server, id})
		}
	}
	c.router.noteElicitations(c.origin, c.server, reply)
	return early
}

// announce sends the client a task status that arrived early; nil for none.
func (c *toolCall) announce(early []byte) {
	if early != nil {
		c.origin.Session().Notify(protocol.NotificationTaskStatus, early)
	}
}

// observed reports the call and its reply to the observer, and returns the reply.
func (c *toolCall) observed(ctx context.Context, reply wire.Reply) wire.Reply {
	if c.observer != nil {
		c.observe(c.observation(reply, ctx.Err() != nil))
	}
	return reply
}

func (c *toolCall) observe(o ObservedCall) {
	if c.observer != nil {
		c.observer.Observe(o)
	}
}

// observation returns what the observer gets about the call, which ends now.
func (c *toolCall) observation(reply wire.Reply, cancelled bool) ObservedCall {
	return ObservedCall{
		Session: c.origin.Session(), Server: c.server, Tool: c.tool, Params: c.sent,
		Reply: reply, Cancelled: cancelled, Start: c.start, Duration: time.Since(c.start),
	}
}

// unanswered returns the reply to a call of a tool that got no response.
func (r *Router) unanswered(ctx context.Context, server, tool string, err error) wire.Reply {
	r.warn(ctx, err, "tool call failed", "upstream", server, "tool", tool)
	var bad *wire.RPCError
	var denied *wire.DeniedError
	switch {
	case errors.As(err, &denied):
		return wire.Reply{Result: ErrorResult(denied.Error()), Denied: denied.Err}
	case errors.Is(err, wire.ErrUnusable):
		return fail(wire.CodeInternal, "%v", err)
	case errors.As(err, &bad):
		return wire.Reply{Error: bad.Raw()}
	}
	return wire.Reply{Result: ErrorResult(err.Error())}
}
