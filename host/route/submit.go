package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Responder answers a request that was submitted. One of Reply and Start is called,
// once, by any goroutine.
type Responder interface {
	// Cancelled reports whether the client has cancelled the request, so that its
	// reply will not be sent. It must not be called after Reply or Start.
	Cancelled() bool
	// Reply sends the reply. It does not block.
	Reply(reply wire.Reply)
	// Start runs work on a goroutine, where it may block, and sends its reply.
	// When ctx has ended, the reply does not matter. Start does not block.
	Start(work func(ctx context.Context) wire.Reply)
}

// Submitter is an Upstream that can be called without a goroutine that waits; see
// upstream.Upstream.
type Submitter interface {
	// Submit is Call that does not wait. complete is called once, perhaps before
	// Submit returns, and does not block. cancel ends the call as the end of
	// Call's ctx with that cause does. If it is not ok, nothing has been done, and
	// the call must be made with Call.
	Submit(call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool)
}

// Submit is Handle for requests that need no goroutine that waits: calls of
// upstreams' tools, which are only passed on. The reply goes to to, perhaps before
// Submit returns. cancel ends the call as the end of Handle's ctx with that cause
// does; to still gets a reply. If it is not ok, nothing has been done, and the
// request is for Handle.
func (r *Router) Submit(call Call, to Responder) (cancel func(cause error), ok bool) {
	if call.Method != protocol.MethodToolsCall {
		return nil, false
	}
	name, task, bad := calledTool(call)
	if bad != nil {
		return nil, false
	}
	entry, ok := r.Catalog.Tool(name)
	if !ok || entry.Kind != catalog.Proxied {
		return nil, false
	}
	up, ok := r.to(call.Origin.Session(), entry.Server)
	if !ok {
		return nil, false
	}
	submitter, ok := up.Upstream.(Submitter)
	if !ok {
		return nil, false
	}
	c := r.agentCall(call, entry, task)
	out, err := c.request(call.Params, call.Progress)
	if err != nil {
		return nil, false
	}
	c.to = to
	return submitter.Submit(out, c.completed)
}

// completed is the wire.CompletionFunc of a submitted call.
func (c *toolCall) completed(reply wire.Reply, next wire.Continuation) {
	if next != nil {
		c.to.Start(func(ctx context.Context) wire.Reply {
			reply, err := next(ctx)
			return c.conclude(ctx, reply, err)
		})
		return
	}
	early := c.note(reply)
	if early == nil && c.observer == nil {
		c.to.Reply(reply)
		return
	}
	seen := c.seen(reply, c.to.Cancelled())
	async, ok := c.observer.(AsyncObserver)
	if early == nil && ok && async.ObserveAsync(seen, func() { c.to.Reply(reply) }) {
		return
	}
	c.to.Start(func(ctx context.Context) wire.Reply {
		c.announce(early)
		seen.Cancelled = seen.Cancelled || ctx.Err() != nil
		c.observe(seen)
		return reply
	})
}
