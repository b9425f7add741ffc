package servers

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Submit is Call for a caller that does not wait. When Submit returns, the request has been passed
// to the link. complete is called once, perhaps before Submit returns. complete gets the reply, or
// a continuation, which must be called and returns the result of Call. complete runs on a goroutine
// of the connection and must not block; the continuation may.
//
// cancel ends the call with a cause, like the end of ctx with this cause ends Call. If the call has
// ended, cancel does nothing. cancel does not block.
//
// ok is false, and nothing has been sent, if the call would have to wait for the upstream to start,
// or for the server to read.
func (u *Upstream) Submit(call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool) {
	u.mu.Lock()
	l := u.link
	u.mu.Unlock()
	if l == nil {
		return nil, false
	}
	pending, err := l.Submit(call, u.limitOf(call.Method), func(reply wire.Reply, next wire.Continuation) {
		if next == nil {
			u.noteError(l, reply)
			complete(reply, nil)
			return
		}
		complete(wire.Reply{}, func(ctx context.Context) (wire.Reply, error) { return u.conclude(ctx, l, call, next) })
	})
	if err != nil {
		return nil, false
	}
	return pending.Cancel, true
}

// conclude continues a call without a reply over the link l.
func (u *Upstream) conclude(ctx context.Context, l link.Link, call wire.Call, next wire.Continuation) (wire.Reply, error) {
	reply, err := next(ctx)
	if err == nil {
		return reply, nil
	}
	u.noteTimeout(err)
	if !IsUnsent(err) {
		return reply, err
	}
	other, err := u.connection(ctx, l) // l had ended without being noticed, as in Call
	if err != nil {
		return wire.Reply{}, err
	}
	return u.callOn(ctx, other, call)
}
