package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// maxAbandoned bounds what is remembered to tell a late answer from a stray
// one; it matters for the log only, and for whoever wants to know.
const maxAbandoned = 4096

// unsentWait is how long a call that could not be written waits for the end of
// the stream, which tells why.
const unsentWait = 100 * time.Millisecond

// pending is a request of ours that waits for its answer.
type pending struct {
	method   string
	progress func(params []byte)
	owner    any
	late     func(what string) // wire.Call.Late
	task     bool              // the answer may be a task that goes on
	params   []byte            // of tasks/result only
	done     chan outcome      // gets exactly one value, unless the call is given up

	// Of calls that were begun, in place of done:
	landed wire.CompletionFunc
	limit  *limit

	// Guarded by Conn.mu:
	due  time.Time     // when limit is to be looked at
	busy bool          // progress is running
	idle chan struct{} // made by a caller that gives up meanwhile; closed when progress has returned
}

type outcome struct {
	reply   wire.Reply
	err     error
	unbegun bool // nothing of the request was written
}

// Call sends a request under an id of ours and waits for its answer, a result
// or a JSON-RPC error, as raw bytes that the caller owns. call.Params is the
// raw params object and may be nil.
//
// If call.Progress is not nil, params._meta.progressToken is set to a token of
// ours (a string), and Progress gets the raw params of each
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
	return c.callWithin(ctx, call, nil)
}

// callWithin is Call with a limit. When that ends the call, its error takes the
// place of the cause of ctx.
func (c *Conn) callWithin(ctx context.Context, call wire.Call, l *limit) (wire.Reply, error) {
	p := newPending(call)
	id, err := c.register(p)
	if err != nil {
		return wire.Reply{}, notSent(err)
	}
	params, err := withToken(call, &c.ids, id)
	if err != nil {
		c.withdraw(id, p)
		return wire.Reply{}, err
	}
	if call.Sent != nil {
		call.Sent(params)
	}
	expiring := l.expiring()
	defer l.stop()
	err = c.out.send(ctx, outgoing{msg: wire.Request(id, call.Method, params), call: id, permit: call.Permit}, l, expiring)
	if err != nil {
		if _, idle := c.withdraw(id, p); idle != nil { // progress for a request it cannot know
			<-idle
		}
		return wire.Reply{}, notSent(c.unsent(ctx, err))
	}
	for {
		select {
		case o := <-p.done:
			if o.err == nil { // it came from the read loop, which has done with p
				p.recycle()
			}
			return c.concluded(ctx, id, o)
		case <-ctx.Done():
			return c.giveUp(ctx, id, p, context.Cause(ctx))
		case <-expiring:
			if err := l.expired(); err != nil {
				return c.giveUp(ctx, id, p, err)
			}
		}
	}
}

// spent are calls that are over, to be used again.
var spent = sync.Pool{New: func() any { return &pending{done: make(chan outcome, 1)} }}

func newPending(call wire.Call) *pending {
	p := spent.Get().(*pending)
	p.method, p.progress, p.owner, p.late = call.Method, call.Progress, call.Owner, call.Late
	p.task = call.Progress != nil && asksForTask(call.Params)
	if call.Method == methodTasksResult {
		p.params = call.Params
	}
	return p
}

func (p *pending) recycle() {
	*p = pending{done: p.done}
	spent.Put(p)
}

// concluded is what Call returns when the call has an outcome.
func (c *Conn) concluded(ctx context.Context, id int64, o outcome) (wire.Reply, error) {
	if o.err == nil {
		return o.reply, nil
	}
	err := c.unsent(ctx, o.err)
	if o.unbegun || c.out.withdraw(id) { // it was still to be written when the connection ended
		err = notSent(err)
	}
	return wire.Reply{}, err
}

// sent is told what became of a message.
func (c *Conn) sent(m outgoing, f fate) {
	if m.answer {
		<-c.answers
	}
	if f == denied {
		c.resolve(m.call, outcome{err: m.denied, unbegun: true})
		return
	}
	if m.call != 0 && f != written {
		c.resolve(m.call, outcome{err: errUnsent, unbegun: f == unbegun})
	}
}

// Notify sends a notification; params may be nil. It returns when the message
// is sure to be written unless the stream breaks. Errors: *DownError, or the
// cause of ctx.
func (c *Conn) Notify(ctx context.Context, method string, params []byte) error {
	return c.unsent(ctx, c.out.send(ctx, outgoing{msg: wire.Notification(method, params)}, nil, nil))
}

func (c *Conn) register(p *pending) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	id := c.ids.next()
	c.pending[id] = p
	if p.landed != nil {
		c.watchOver(p)
	}
	return id, nil
}

// withdraw forgets a call and tells whether its answer was still to come. The
// caller must then wait for idle, if it is not nil: progress is running.
func (c *Conn) withdraw(id int64, p *pending) (waiting bool, idle <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting = c.abandon(id) != nil
	if p.busy {
		p.idle = make(chan struct{})
	}
	return waiting, p.idle
}

// abandon takes the call that waits for id and remembers that its answer may
// still come; nil if none does. The caller holds c.mu.
func (c *Conn) abandon(id int64) *pending {
	p := c.pending[id]
	if p == nil {
		return nil
	}
	delete(c.pending, id)
	if len(c.abandoned) >= maxAbandoned {
		clear(c.abandoned)
	}
	c.abandoned[id] = p.late
	return p
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
		c.conclude(id, p, o)
	}
}

// conclude gives a call that was taken its outcome.
func (c *Conn) conclude(id int64, p *pending, o outcome) {
	if p.landed != nil {
		c.land(id, p, o)
		return
	}
	p.done <- o
}

// giveUp ends a call that is not waited for any more, unless its answer came
// just before.
func (c *Conn) giveUp(ctx context.Context, id int64, p *pending, cause error) (wire.Reply, error) {
	waiting, idle := c.withdraw(id, p)
	if waiting {
		c.takeBack(id, p, cause)
	}
	if idle != nil {
		<-idle
	}
	if waiting {
		return wire.Reply{}, cause
	}
	return c.concluded(ctx, id, <-p.done)
}

// takeBack tells the server that a call is not waited for any more, if it may
// have been written.
func (c *Conn) takeBack(id int64, p *pending, cause error) {
	if c.out.withdraw(id) {
		return
	}
	if p.owner != nil {
		c.lingers(id, p.owner)
	}
	if p.method != string(mcp.MethodInitialize) {
		c.out.push(outgoing{msg: wire.Notification(
			string(mcp.MethodNotificationCancelled), wire.CancelParams(cause, id))})
	}
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
func withToken(call wire.Call, of *ids, id int64) ([]byte, error) {
	params := call.Params
	if call.Progress != nil {
		out, err := wire.Set(params, of.token(id), "_meta", "progressToken")
		if err != nil {
			return nil, wire.Errorf(wire.CodeInvalidParams, "invalid params: params and params._meta must be objects")
		}
		return out, nil
	}
	if _, ok := wire.Get(params, "_meta", "progressToken"); !ok {
		return params, nil
	}
	out, err := wire.Delete(params, "_meta", "progressToken")
	if err != nil { // no objects, so no token; the server may judge them
		return params, nil
	}
	return out, nil
}
