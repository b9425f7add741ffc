package upstream

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Submit is Call for a caller that does not wait: the request is on its way when
// it returns, and complete is called once, perhaps before that: with the reply,
// or with a continuation, which has to be called and gives what Call would have
// returned. complete runs on a goroutine of the connection and must not block;
// the continuation may.
//
// cancel ends the call as the end of ctx with that cause ends Call; once the
// call is over, it does nothing. It does not block either.
//
// It is not ok, and nothing has been done, if the call would have to wait for the
// upstream, or for the server to read.
func (u *Upstream) Submit(call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool) {
	u.mu.Lock()
	l := u.link
	u.mu.Unlock()
	if l == nil {
		return nil, false
	}
	pending, err := l.Submit(call, u.limitOf(call.Method), func(reply wire.Reply, next wire.Continuation) {
		if next == nil {
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

// conclude goes on with a call that got no reply over a link.
func (u *Upstream) conclude(ctx context.Context, l link.Link, call wire.Call, next wire.Continuation) (wire.Reply, error) {
	reply, err := next(ctx)
	if err == nil {
		return reply, nil
	}
	u.noteTimeout(err)
	if !surelyUnsent(err) {
		return reply, err
	}
	other, err := u.connection(ctx, l) // l had ended unnoticed, as in Call
	if err != nil {
		return wire.Reply{}, err
	}
	return u.callOn(ctx, other, call)
}
