package route

import (
	"context"
	"time"

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
	if call.Method != protocol.MethodToolsCall || call.Progress != nil {
		return nil, false
	}
	name, task, bad := calledTool(call)
	if bad != nil || task {
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
	params, err := wire.Set(call.Params, wire.Quote(entry.Tool), "name")
	if err != nil {
		return nil, false
	}
	f := begun{router: r, call: call, entry: entry, to: to}
	out := wire.Call{Method: call.Method, Params: params, Owner: call.Origin, Permit: &f}
	if r.Observer != nil && r.Observer.Observes() {
		f.start, out.Sent = time.Now(), f.leaves
	}
	return beginner.Begin(out, f.landed)
}

// begun is a call that was begun.
type begun struct {
	router *Router
	call   Call
	entry  catalog.Entry
	to     Landing
	start  time.Time // zero if nobody is to be told of the call
	sent   []byte    // the params as they left
}

// leaves is told the params that leave.
func (f *begun) leaves(params []byte) { f.sent = params }

// Permitted implements wire.Permit.
func (f *begun) Permitted() error {
	return f.router.Catalog.Permitted(f.entry.Server, f.entry.Tool, true)
}

// landed implements wire.CompletionFunc.
func (f *begun) landed(reply wire.Reply, rest wire.Continuation) {
	if rest != nil {
		f.to.Resume(func(ctx context.Context) wire.Reply { return f.resumed(ctx, rest) })
		return
	}
	f.router.noteElicitations(f.call.Origin, f.entry.Server, reply)
	if f.start.IsZero() {
		f.to.Land(reply)
		return
	}
	seen := f.seen(reply, f.to.Cancelled())
	soon, ok := f.router.Observer.(SoonObserver)
	if ok && soon.ObserveSoon(seen, func() { f.to.Land(reply) }) {
		return
	}
	f.to.Resume(func(ctx context.Context) wire.Reply {
		seen.Cancelled = seen.Cancelled || ctx.Err() != nil
		f.router.Observer.Observe(seen)
		return reply
	})
}

// resumed is the end of a call that has no reply yet.
func (f *begun) resumed(ctx context.Context, rest wire.Continuation) wire.Reply {
	reply, err := rest(ctx)
	if err != nil {
		reply = f.router.unanswered(ctx, f.entry.Server, f.entry.Tool, err)
	} else {
		f.router.noteElicitations(f.call.Origin, f.entry.Server, reply)
	}
	if !f.start.IsZero() {
		f.router.Observer.Observe(f.seen(reply, ctx.Err() != nil))
	}
	return reply
}

// seen is what the observer is told of the call, which ends now.
func (f *begun) seen(reply wire.Reply, cancelled bool) ObservedCall {
	return ObservedCall{
		Session: f.call.Origin.Session(), Server: f.entry.Server, Tool: f.entry.Tool, Params: f.sent,
		Reply: reply, Cancelled: cancelled, Start: f.start, Duration: time.Since(f.start),
	}
}
