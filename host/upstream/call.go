package upstream

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// maxAbandoned bounds what is remembered to tell a late answer from a stray
// one; it matters for the log only.
const maxAbandoned = 4096

// unsentWait is how long a call that could not be written waits for the end of
// the stream, which tells why.
const unsentWait = 100 * time.Millisecond

// pending is a request of ours that waits for its answer.
type pending struct {
	method   string
	progress func(params []byte)
	done     chan outcome // gets exactly one value, unless the call is given up

	// Guarded by Conn.mu:
	busy bool          // progress is running
	idle chan struct{} // made by a caller that gives up meanwhile; closed when progress has returned
}

type outcome struct {
	reply wire.Reply
	err   error
}

// Call sends a request under an id of ours and waits for its answer, a result
// or a JSON-RPC error, as raw bytes that the caller owns. params is the raw
// params object and may be nil.
//
// If progress is not nil, params._meta.progressToken is set to a token of ours
// (an integer), and progress gets the raw params of each
// notifications/progress for it: from the read loop, in order, all of them
// before Call returns and none after. So while progress does not return, the
// connection reads nothing and Call does not return either. If progress is
// nil, a progressToken in params is removed. Everything else in params goes
// out byte for byte, except that line breaks between tokens become spaces.
//
// When ctx ends first, Call returns the cause of ctx without waiting for the
// server, and the server gets notifications/cancelled with the request's own
// id: made of the client's notification if the cause is a
// *wire.CancelledError, so that its reason and _meta travel. A late answer is
// dropped. The request initialize is given up without a notification (revision
// 2025-11-25, basic/utilities/cancellation).
//
// Other errors: *DownError when the stream has ended or ends, *AnswerError, or
// *wire.RPCError when params._meta cannot hold a token; nothing is sent in
// that case. An answer larger than the cap fails its call at once if the id
// stands near the beginning or the end of the message, as it does with every
// known server; otherwise the call waits until ctx ends.
func (c *Conn) Call(ctx context.Context, method string, params []byte, progress func(params []byte)) (wire.Reply, error) {
	p := &pending{method: method, progress: progress, done: make(chan outcome, 1)}
	id, err := c.register(p)
	if err != nil {
		return wire.Reply{}, err
	}
	params, err = withToken(params, id, progress != nil)
	if err != nil {
		c.withdraw(id, p)
		return wire.Reply{}, err
	}
	err = c.out.send(ctx, outgoing{msg: wire.Request(id, method, params), sent: func(err error) {
		if err != nil {
			c.resolve(id, outcome{err: errUnsent})
		}
	}})
	if err != nil {
		if _, idle := c.withdraw(id, p); idle != nil { // progress for a request it cannot know
			<-idle
		}
		return wire.Reply{}, c.unsent(ctx, err)
	}
	select {
	case o := <-p.done:
		return o.reply, c.unsent(ctx, o.err)
	case <-ctx.Done():
		return c.giveUp(ctx, id, p)
	}
}

// Notify sends a notification; params may be nil. It returns when the message
// is sure to be written unless the stream breaks. Errors: *DownError, or the
// cause of ctx.
func (c *Conn) Notify(ctx context.Context, method string, params []byte) error {
	return c.unsent(ctx, c.out.send(ctx, outgoing{msg: wire.Notification(method, params)}))
}

func (c *Conn) register(p *pending) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.lastID++
	c.pending[c.lastID] = p
	return c.lastID, nil
}

// withdraw forgets a call and tells whether its answer was still to come. The
// caller must then wait for idle, if it is not nil: progress is running.
func (c *Conn) withdraw(id int64, p *pending) (waiting bool, idle <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, waiting = c.pending[id]
	delete(c.pending, id)
	if waiting {
		if len(c.abandoned) >= maxAbandoned {
			clear(c.abandoned)
		}
		c.abandoned[id] = struct{}{}
	}
	if p.busy {
		p.idle = make(chan struct{})
	}
	return waiting, p.idle
}

// resolve gives a call its outcome. It returns false when no call waits for id.
func (c *Conn) resolve(id int64, o outcome) bool {
	c.mu.Lock()
	p, ok := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if ok {
		p.done <- o
	}
	return ok
}

// giveUp ends a call whose ctx has ended, unless its answer came just before.
func (c *Conn) giveUp(ctx context.Context, id int64, p *pending) (wire.Reply, error) {
	waiting, idle := c.withdraw(id, p)
	if waiting && p.method != string(mcp.MethodInitialize) {
		c.out.push(outgoing{msg: wire.Notification(
			string(mcp.MethodNotificationCancelled), cancelParams(context.Cause(ctx), id))})
	}
	if idle != nil {
		<-idle
	}
	if waiting {
		return wire.Reply{}, context.Cause(ctx)
	}
	o := <-p.done
	return o.reply, c.unsent(ctx, o.err)
}

// unsent replaces errUnsent by a *DownError. What broke the writer mostly ends
// the stream as well and at once, and that end says more.
func (c *Conn) unsent(ctx context.Context, err error) error {
	if !errors.Is(err, errUnsent) {
		return err
	}
	t := time.NewTimer(unsentWait)
	defer t.Stop()
	select {
	case <-c.done:
		return c.Err()
	case <-t.C:
	case <-ctx.Done():
	}
	return &DownError{Upstream: c.opts.Name, Reason: "it does not read its input any more"}
}

// withToken puts our progress token into params, or takes a token of the
// client out.
func withToken(params []byte, id int64, want bool) ([]byte, error) {
	if want {
		out, err := wire.Set(params, strconv.AppendInt(nil, id, 10), "_meta", "progressToken")
		if err != nil {
			return nil, wire.Errorf(wire.CodeInvalidParams, "invalid params: params and params._meta must be objects")
		}
		return out, nil
	}
	if params == nil {
		return nil, nil
	}
	out, err := wire.Delete(params, "_meta", "progressToken")
	if err != nil { // no objects, so no token; the server may judge them
		return params, nil
	}
	return out, nil
}

// cancelParams are the params of notifications/cancelled for our request id.
func cancelParams(cause error, id int64) []byte {
	raw := strconv.AppendInt(nil, id, 10)
	var cancelled *wire.CancelledError
	if errors.As(cause, &cancelled) && cancelled.Params != nil {
		if params, err := wire.Set(cancelled.Params, raw, "requestId"); err == nil {
			return params
		}
	}
	params, _ := wire.Set(nil, raw, "requestId")
	params, _ = wire.Set(params, wire.Quote(cause.Error()), "reason")
	return params
}
