package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Landing waits for the reply to a request that was begun. One of Land and Resume
// is called, once, by any goroutine.
type Landing interface {
	// Cancelled tells whether the client has cancelled the request, so that its
	// reply will not be sent. It must not be called after Land or Resume.
	Cancelled() bool
	// Land takes the reply. It does not block.
	Land(reply wire.Reply)
	// Resume has work give the reply, on a goroutine where it may block. When ctx
	// has ended, the reply does not matter. It does not block either.
	Resume(work func(ctx context.Context) wire.Reply)
}

// Beginner is an Upstream that calls can be left to; see upstream.Upstream.
type Beginner interface {
	// Begin is Call that does not wait. landed is called once, perhaps before
	// Begin returns, and does not block; cancel does what the end of Call's ctx
	// with that cause does. It is not ok, and nothing has been done, where the call
	// needs more than that.
	Begin(call wire.Call, landed wire.CompletionFunc) (cancel func(cause error), ok bool)
}

// Begin is Handle for what can be done without a goroutine that waits: a call of
// an upstream's tool that only has to be passed on, both ways. The reply goes to
// to, perhaps before Begin returns. cancel is the end of Handle's ctx with that
// cause; to still gets a reply then. It is not ok, and nothing has been done, for
// any other request: that is for Handle.
func (r *Router) Begin(call Call, to Landing) (cancel func(cause error), ok bool) {
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
	beginner, ok := up.Upstream.(Beginner)
	if !ok {
		return nil, false
	}
	c := r.agentCall(call, entry, task)
	out, err := c.request(call.Params, call.Progress)
	if err != nil {
		return nil, false
	}
	c.to = to
	return beginner.Begin(out, c.completed)
}

// completed is the wire.CompletionFunc of a call that was begun.
func (c *toolCall) completed(reply wire.Reply, next wire.Continuation) {
	if next != nil {
		c.to.Resume(func(ctx context.Context) wire.Reply {
			reply, err := next(ctx)
			return c.conclude(ctx, reply, err)
		})
		return
	}
	early := c.note(reply)
	if early == nil && c.observer == nil {
		c.to.Land(reply)
		return
	}
	seen := c.seen(reply, c.to.Cancelled())
	soon, ok := c.observer.(SoonObserver)
	if early == nil && ok && soon.ObserveSoon(seen, func() { c.to.Land(reply) }) {
		return
	}
	c.to.Resume(func(ctx context.Context) wire.Reply {
		c.announce(early)
		seen.Cancelled = seen.Cancelled || ctx.Err() != nil
		c.observe(seen)
		return reply
	})
}
