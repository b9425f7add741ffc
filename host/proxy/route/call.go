package route

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// toolCall is a call of a tool that is forwarded to the upstream. All tool calls take the same
// path: request makes the upstream's request, and conclude makes the reply from the outcome. In
// between, either the caller waits (answer), or completed is called with the outcome (Submit).
//
// A toolCall is the wire.Permit of the request: the rights to call the tool are checked when the
// request is written.
type toolCall struct {
	router       *Router
	call         Call     // of a client or script, with the tool's public name for a client
	origin       Origin   // nil if no client has asked for the call
	server, tool string   // real names
	agent        bool     // an agent calls the tool, not a script
	task         bool     // the call is to become a task
	observer     Observer // nil if the call is not observed
	start        time.Time
	sent         []byte    // the params as sent, if there is an observer
	to           Responder // only of a submitted call
	waits        bool      // we declare tasks in place of the client, and wait for them
	// gated is the decision of the Gate; nil as long as the Gate is not active.
	gated   atomic.Pointer[gated]
	script  *ScriptCall // the call of the script; nil for a call of a client
	pause   func() (goOn func())
	viaTask bool // the call is to become a task, of which the client gets the result or a task of the extension
}

// agentCall makes the toolCall for a request of a client.
func (r *Router) agentCall(call Call, entry catalog.Entry, task bool) *toolCall {
	c := &toolCall{router: r, call: call, origin: call.Origin, server: entry.Server, tool: entry.Tool, agent: true, task: task}
	c.viaTask = r.mustBeTask(call.Origin, entry)
	if r.Observer != nil && r.Observer.Observes() {
		c.observer, c.start = r.Observer, time.Now()
	}
	c.gate()
	return c
}

// request returns the request for the upstream, with the tool's real name. in are the answers to
// the questions of the upstream.
func (c *toolCall) request(in wire.Inputs) (wire.Call, error) {
	params, err := wire.Set(c.call.Params, wire.Quote(c.tool), "name")
	if err == nil && c.viaTask {
		params, err = wire.Set(params, []byte("{}"), "task")
	}
	if err != nil {
		return wire.Call{}, wire.Errorf(wire.CodeInvalidParams, "tools/call: params: %v", err)
	}
	out := wire.Call{Method: protocol.MethodToolsCall, Params: params, Progress: c.call.Progress, Permit: c, Inputs: in}
	c.router.onBehalf(&out, c.origin)
	if c.waits {
		out.Client = declareTasks(out.Client)
	}
	if c.observer != nil {
		out.Sent = func(params []byte) { c.sent = params }
	}
	return out, nil
}

// Permitted implements wire.Permit.
func (c *toolCall) Permitted() error {
	if err := c.router.scope(sessionOf(c.origin)).Permitted(c.server, c.tool, c.agent); err != nil {
		return err
	}
	if c.gated.Load() == nil {
		c.gate() // the Gate may have become active
	}
	if c.script != nil && c.script.Permit != nil {
		if err := c.script.Permit(); err != nil {
			return err
		}
	}
	return c.gated.Load().Permitted()
}

// gate makes the preliminary decision of the Gate, if the Gate is active.
func (c *toolCall) gate() {
	if !c.router.gates() {
		return
	}
	request := policy.Request{Kind: policy.KindTool, Server: c.server, Name: c.tool, Arguments: argumentsOf(c.call.Params)}
	if c.script != nil {
		request.Caller = c.script.caller()
	}
	g := c.router.decide(c.origin, request, func() []byte { return c.router.Catalog.Definition(c.server, c.tool) })
	if c.script != nil && c.script.Approved {
		g.request.Approved = true // about the definition just received
	}
	c.gated.Store(g)
}

// answer makes the call and waits for the reply.
func (c *toolCall) answer(ctx context.Context) wire.Reply {
	var reply wire.Reply
	w := &waiter{progress: c.call.Progress, pause: c.pause}
	err := c.pass(ctx, w)
	c.call.Progress = w.after(c.call.Progress)
	if err == nil && c.script != nil && c.script.Before != nil {
		err = c.script.Before(ctx)
	}
	if err == nil {
		reply, err = c.try(ctx, c.call.inputs)
	}
	return c.conclude(ctx, reply, err)
}

// pass waits until the call may be made. A call allowed by a person does not go to a server that
// has since taken the place of the server in the question.
func (c *toolCall) pass(ctx context.Context, w *waiter) error {
	g := c.gated.Load()
	if g.decided().Allowed() {
		return g.pass(ctx, c.origin, w)
	}
	before, ok := c.router.to(sessionOf(c.origin), c.server)
	if err := g.pass(ctx, c.origin, w); err != nil {
		return err
	}
	if now, _ := c.router.to(sessionOf(c.origin), c.server); ok && now.Upstream != before.Upstream {
		return &wire.DeniedError{Err: fmt.Errorf("server %q was replaced while the call waited for approval (call the tool again)", c.server)}
	}
	return nil
}

// try sends the request and waits for the reply of the upstream.
func (c *toolCall) try(ctx context.Context, in wire.Inputs) (wire.Reply, error) {
	up, ok := c.router.to(sessionOf(c.origin), c.server)
	if !ok {
		return wire.Reply{}, fmt.Errorf("upstream %q is not configured", c.server)
	}
	if err := c.router.renewed(sessionOf(c.origin), up, true); err != nil {
		return wire.Reply{}, err
	}
	out, err := c.request(in)
	if err != nil {
		return wire.Reply{}, err
	}
	c.router.levelBefore(ctx, c.origin, up)
	return up.Call(ctx, out)
}

// conclude returns the reply to the client or script, perhaps after waiting for the client.
func (c *toolCall) conclude(ctx context.Context, reply wire.Reply, err error) wire.Reply {
	if err == nil && c.needsTask(reply) {
		c.waits = true
		reply, err = c.try(ctx, c.call.inputs)
	}
	if err == nil && c.asksAside(reply) {
		b := bridge{origin: c.origin, server: c.server, budget: c.router.Budget, again: c.try}
		reply, err = b.finish(ctx, reply)
	}
	if err == nil && isTask(reply) && !c.takesTasks() {
		reply, err = c.await(ctx, reply.Result)
	}
	if id, made := c.handshakeTask(reply); err == nil && made {
		reply, err = c.awaitHandshakeTask(ctx, id)
	}
	if err != nil {
		reply = c.router.unanswered(ctx, c.server, c.tool, err)
	} else {
		c.announce(c.note(reply))
		c.given(reply)
		reply = c.sealTask(reply)
	}
	return c.observed(ctx, reply)
}

// bridges reports whether more is to be done before the caller can get a reply.
func (c *toolCall) bridges(reply wire.Reply) bool {
	if reply.Error != nil {
		return c.needsTask(reply)
	}
	switch resultType(reply) {
	case envelope.TypeInputRequired:
		return !c.agent || !isStateless(c.origin)
	case envelope.TypeTask:
		return !c.takesTasks()
	}
	_, made := c.handshakeTask(reply)
	return made
}

// asksAside reports whether the upstream asks a question that cannot be in the reply to the caller.
func (c *toolCall) asksAside(reply wire.Reply) bool {
	return asks(reply) && (!c.agent || !isStateless(c.origin))
}

// note remembers the task that a reply creates, and the requested elicitations. early is a status
// of the task that arrived before the reply; nil for none.
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

// observed reports the call and the reply to the observer, and returns the reply.
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

// observation returns the description of the call, which ends now, for the observer.
func (c *toolCall) observation(reply wire.Reply, cancelled bool) ObservedCall {
	o := ObservedCall{
		Origin: c.origin, Kind: policy.KindTool, Server: c.server, Tool: c.tool, Params: c.sent,
		Reply: reply, Cancelled: cancelled, Start: c.start, Duration: time.Since(c.start), Decision: c.gated.Load().decided(),
	}
	if o.Unsent = c.sent == nil || reply.Denied != nil; c.sent == nil {
		o.Params, _ = wire.Set(c.call.Params, wire.Quote(c.tool), "name") // no request is without a name
	}
	return o
}

// unanswered returns the reply to a call of a tool without a response.
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
