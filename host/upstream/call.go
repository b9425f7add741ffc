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
	owner    any
	task     bool         // the answer may be a task that goes on
	params   []byte       // of tasks/result only
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
// or a JSON-RPC error, as raw bytes that the caller owns. call.Params is the
// raw params object and may be nil.
//
// If call.Progress is not nil, params._meta.progressToken is set to a token of
// ours (an integer), and Progress gets the raw params of each
// notifications/progress for it: from the read loop, in order, all of them
// before Call returns and none after. So while Progress does not return, the
// connection reads nothing and Call does not return either. If Progress is
// nil, a progressToken in params is removed. Everything else in params goes
// out byte for byte, except that line breaks between tokens become spaces.
//
// If params has a member "task" and the answer is a task that goes on
// (revision 2025-11-25, basic/utilities/tasks), Progress may be called after
// Call has returned, until the connection sees the end of the task: in its
// status notification or in the answer to a request about it. That holds for
// the last 1024 tasks.
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
func (c *Conn) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	p := &pending{method: call.Method, progress: call.Progress, owner: call.Owner, done: make(chan outcome, 1)}
	p.task = call.Progress != nil && asksForTask(call.Params)
	if call.Method == methodTasksResult {
		p.params = call.Params
	}
	id, err := c.register(p)
	if err != nil {
		return wire.Reply{}, notSent(err)
	}
	params, err := withToken(call.Params, id, call.Progress != nil)
	if err != nil {
		c.withdraw(id, p)
		return wire.Reply{}, err
	}
	err = c.out.send(ctx, outgoing{msg: wire.Request(id, call.Method, params), sent: func(err error) {
		if err != nil {
			c.resolve(id, outcome{err: errUnsent})
		}
	}})
	if err != nil {
		if _, idle := c.withdraw(id, p); idle != nil { // progress for a request it cannot know
			<-idle
		}
		return wire.Reply{}, notSent(c.unsent(ctx, err))
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

// take takes the call that waits for id, nil if none does. Whoever has taken it
// must give it its outcome.
func (c *Conn) take(id int64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[id]
	delete(c.pending, id)
	return p
}

// resolve gives the call that waits for id its outcome.
func (c *Conn) resolve(id int64, o outcome) {
	if p := c.take(id); p != nil {
		p.done <- o
	}
}

// giveUp ends a call whose ctx has ended, unless its answer came just before.
func (c *Conn) giveUp(ctx context.Context, id int64, p *pending) (wire.Reply, error) {
	waiting, idle := c.withdraw(id, p)
	if waiting && p.owner != nil {
		c.lingers(id, p.owner)
	}
	if waiting && p.method != string(mcp.MethodInitialize) {
		c.out.push(outgoing{msg: wire.Notification(
			string(mcp.MethodNotificationCancelled), wire.CancelParams(context.Cause(ctx), id))})
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
