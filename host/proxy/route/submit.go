package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// Responder answers a submitted request. Either Reply or Start is called, once, on any goroutine.
type Responder interface {
	// Cancelled reports whether the client has cancelled the request, so that the reply will not be
	// sent. Cancelled must not be called after Reply or Start.
	Cancelled() bool
	// Reply sends the reply without blocking.
	Reply(reply wire.Reply)
	// Start runs work on a goroutine, where work may block, and sends the reply. The reply is
	// ignored when ctx has ended. Start does not block.
	Start(work func(ctx context.Context) wire.Reply)
}

// Submitter is an Upstream that can be called without a waiting goroutine; see upstream.Upstream.
type Submitter interface {
	// Submit makes a call as Call does, but does not wait. complete is called once, perhaps before
	// Submit returns, and must not block. cancel ends the call in the same way as if the context of
	// Call had ended with the same cause. If ok is false, nothing has been done, and the caller
	// must use Call.
	Submit(call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool)
}

// Submit answers a request as Handle does, but without a waiting goroutine. Submit takes only calls
// of upstreams' tools, which are forwarded. to gets the reply, perhaps before Submit returns.
// cancel ends the call in the same way as if the context of Handle had ended with the same cause;
// to still gets a reply. If ok is false, nothing has been done, and the caller must use Handle.
func (r *Router) Submit(call Call, to Responder) (cancel func(cause error), ok bool) {
	if call.Method != protocol.MethodToolsCall {
		return nil, false
	}
	call, bad := r.receive(call)
	if bad != nil || r.lowersLevel(call.Origin) {
		return nil, false
	}
	name, task, bad := calledTool(call)
	if bad != nil {
		return nil, false
	}
	entry, ok := r.scope(call.Origin.Session()).Tool(name)
	if !ok || entry.Kind != catalog.Proxied || call.Resume != nil || call.visits != "" {
		return nil, false
	}
	call, task, ok = r.taskParam(call, entry.Server, task)
	if !ok {
		return nil, false
	}
	up, ok := r.to(call.Origin.Session(), entry.Server)
	if !ok || r.lacksLevel(call.Origin, up) || r.renewed(call.Origin.Session(), up, false) != nil {
		return nil, false
	}
	submitter, ok := up.Upstream.(Submitter)
	if !ok {
		return nil, false
	}
	c := r.agentCall(call, entry, task)
	if !c.gated.Load().decided().Allowed() {
		return nil, false
	}
	out, err := c.request(call.inputs)
	if err != nil {
		return nil, false
	}
	c.to = to
	return submitter.Submit(out, c.completed)
}

// completed is the wire.CompletionFunc of a submitted call.
func (c *toolCall) completed(reply wire.Reply, next wire.Continuation) {
	if next == nil && c.bridges(reply) {
		next = func(context.Context) (wire.Reply, error) { return reply, nil }
	}
	if next != nil {
		c.to.Start(func(ctx context.Context) wire.Reply {
			reply, err := next(ctx)
			return c.router.adapt(c.call, c.conclude(ctx, reply, err))
		})
		return
	}
	early := c.note(reply)
	c.given(reply)
	adapted := c.router.adapt(c.call, c.sealTask(reply))
	if early == nil && c.observer == nil {
		c.to.Reply(adapted)
		return
	}
	seen := c.observation(reply, c.to.Cancelled())
	async, ok := c.observer.(AsyncObserver)
	if early == nil && ok && async.ObserveAsync(seen, func() { c.to.Reply(adapted) }) {
		return
	}
	c.to.Start(func(ctx context.Context) wire.Reply {
		c.announce(early)
		seen.Cancelled = seen.Cancelled || ctx.Err() != nil
		c.observe(seen)
		return adapted
	})
}
