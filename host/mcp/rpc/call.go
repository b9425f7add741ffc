package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// unwrittenWait is how long a call that could not be written waits for the
// connection to end with an error that says why.
const unwrittenWait = 100 * time.Millisecond

// Call is a request of ours.
type Call struct {
	wire.Call
	// Stream is where the request is sent; nil: the main stream. If Stream is
	// finished, messages are sent on the main stream.
	Stream Stream
	// AnyStream allows the answer to come on the main stream although Stream is a
	// CallStream.
	AnyStream bool
	// Limit says how long the call may take.
	Limit Limit
}

// Pending is a call that was submitted.
type Pending struct {
	conn *Conn
	id   int64
}

// ID returns the id of the request on the wire.
func (p Pending) ID() int64 { return p.id }

// Cancel ends the call in the way that the end of the context of Conn.Call does. If
// the call has ended, it does nothing. It does not block.
func (p Pending) Cancel(cause error) { p.conn.cancelCall(p.id, cause) }

// ErrFull means that a call was not submitted because its stream is full: the peer
// does not read. Conn.Call waits for room.
var ErrFull = errors.New("the stream takes no request without waiting")

// Submit makes a call and waits for nothing: when it returns, the request has been
// passed to its stream. complete is called once, on any goroutine, perhaps before
// Submit returns. It gets the reply, or a continuation, which must be called and
// returns what Call would have returned. complete must not block; the continuation
// may.
//
// Progress callbacks run before complete, in order, and none runs after it, unless
// the reply is a task that goes on; see Call.
//
// After an error nothing has been sent and complete is not called. The error is
// ErrFull, that of a connection that has ended, or a *wire.RPCError for params that
// cannot hold a progress token.
func (c *Conn) Submit(call Call, complete wire.CompletionFunc) (Pending, error) {
	p := c.newCall(call)
	p.complete = complete
	on := p.stream
	f, err := c.register(context.Background(), p, call)
	if err != nil {
		return Pending{}, err
	}
	// From here on the call may have ended, and p may have been reused.
	if !on.TrySend(f) && c.remove(f.ID) {
		c.recycle(p)
		return Pending{}, ErrFull
	}
	return Pending{c, f.ID}, nil
}

// Call makes a call and waits for its answer, a result or a JSON-RPC error, as
// raw bytes that the caller owns.
//
// If call.Progress is not nil, params._meta.progressToken is set to a token of
// ours, and Progress is called with the raw params of each notifications/progress
// for it. It runs on the goroutine that reads their stream, one at a time and in
// order. Call returns after Progress was called for everything that came before the
// answer, and Progress is not called after that. While Progress runs, the stream is
// not read. If Progress is nil, a progressToken in params is removed. Nothing else
// in params is changed.
//
// If params has a member "task" and the answer is a task that goes on (revision
// 2025-11-25, basic/utilities/tasks), Progress may be called after Call has
// returned, until the connection sees the end of the task: in its status
// notification, or in the answer to a request about it. That holds for the last
// 1024 tasks.
//
// If ctx ends first, Call returns its cause without waiting for the peer. The peer
// gets notifications/cancelled with the id of the request. If the cause is a
// *wire.CancelledError, the notification has the reason and _meta of the client's.
// If the request has not been written yet, it never will be, and no notification
// is sent. A late answer is dropped. The request initialize is abandoned without a
// notification (revision 2025-11-25, basic/utilities/cancellation).
//
// Other errors are those of Options.Errors, those of the stream, a
// *wire.DeniedError, or a *wire.RPCError for params that cannot hold a progress
// token.
func (c *Conn) Call(ctx context.Context, call Call) (wire.Reply, error) {
	p := c.newCall(call)
	f, err := c.register(ctx, p, call)
	if err != nil {
		return wire.Reply{}, err
	}
	accepted := ctx.Err() == nil && p.stream.TrySend(f) || c.sendLater(ctx, p, f)
	var o outcome
	select {
	case o = <-p.result:
	case <-ctx.Done():
		c.cancelCall(f.ID, context.Cause(ctx))
		o = <-p.result // the cause, or an answer that came just before
	}
	if p.task == "" {
		c.recycle(p)
	}
	o.unsent = o.unsent || !accepted
	return c.callerResult(ctx, o)
}

// register prepares a call and adds it to those in flight. After an error, p has
// been recycled.
func (c *Conn) register(ctx context.Context, p *call, call Call) (f Frame, err error) {
	now := time.Now()
	p.begin(now)
	c.mu.Lock()
	p.id = c.state.ids.next()
	f.ID = p.id
	c.mu.Unlock()
	if c.opts.Tracer != nil {
		c.trace(ctx, p, &call)
	}
	params, err := c.withToken(call.Call, f.ID)
	if err != nil {
		p.endSpan(wire.Reply{}, err)
		c.recycle(p)
		return Frame{}, err
	}
	if call.Sent != nil {
		call.Sent(params)
	}
	f.Data, f.Permit, f.conn = wire.Request(f.ID, call.Method, params), call.Permit, c
	c.mu.Lock()
	err = c.state.register(p)
	if err == nil {
		c.scheduleLimit(p)
	}
	f.alone = len(c.state.calls) == 1
	c.mu.Unlock()
	if err != nil {
		p.endSpan(wire.Reply{}, err)
		c.recycle(p)
		return Frame{}, c.errors.Unsent(err)
	}
	return f, nil
}

// remove removes a call from those in flight, if no stream has accepted its
// request. It returns false if the call has had its outcome.
func (c *Conn) remove(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.take(id) != nil
}

// sendLater waits until a stream accepts the request of a call, and reports whether
// one has. In either case the outcome of the call follows, or has been delivered.
func (c *Conn) sendLater(ctx context.Context, p *call, f Frame) (accepted bool) {
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	waiting := c.state.startWaiting(p, cancel)
	c.mu.Unlock()
	if !waiting {
		return false
	}
	err := p.stream.Send(sending, f)
	if errors.Is(err, ErrFinished) && c.moveToMain(p) {
		err = p.stream.Send(sending, f)
	}
	c.mu.Lock()
	cause, over := c.state.stopWaiting(p, err == nil)
	c.mu.Unlock()
	switch {
	case err == nil && cause != nil: // cancelled, but sent nevertheless
		c.notifyCancelled(f.ID, p.method, p.stream, cause)
	case err != nil && !over:
		c.conclude(p, outcome{err: err})
	}
	return err == nil
}

// moveToMain sets the main stream as the one for the request of a call. It returns
// false if it was the main stream before, or if the call has ended.
func (c *Conn) moveToMain(p *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.move(p, c.opts.Main)
}

// callerResult returns what the caller of a call with that outcome gets.
func (c *Conn) callerResult(ctx context.Context, o outcome) (wire.Reply, error) {
	if o.err == nil {
		return o.reply, nil
	}
	err := o.err
	if errors.Is(err, errUnwritten) {
		err = c.unwrittenReason(ctx)
	}
	if o.unsent {
		err = c.errors.Unsent(err)
	}
	return wire.Reply{}, err
}

// unwrittenReason returns the error of a message that could not be written. It
// waits a moment for the end of the connection, because what broke the stream
// usually ends the connection too, with an error that says more.
func (c *Conn) unwrittenReason(ctx context.Context) error {
	t := time.NewTimer(unwrittenWait)
	defer t.Stop()
	select {
	case <-c.done:
		return c.Err()
	case <-t.C:
	case <-ctx.Done():
	}
	return c.errors.Down("it does not read its input any more", nil)
}

// Unwritten returns the error of a call or notification that could not be written.
func (c *Conn) Unwritten() error { return c.unwrittenReason(context.Background()) }

// Notify sends a notification on a stream (nil: the main one), or on the main
// stream if that one is finished. params may be nil. It waits for room on the
// stream. If there is room, the notification is sent even if ctx has ended. The
// errors are those of Call.
func (c *Conn) Notify(ctx context.Context, on Stream, method string, params []byte) error {
	f := Frame{Data: wire.Notification(method, params), conn: c}
	if on == nil {
		on = c.opts.Main
	}
	if on.TrySend(f) {
		return nil
	}
	err := on.Send(ctx, f)
	if errors.Is(err, ErrFinished) && on != c.opts.Main {
		err = c.opts.Main.Send(ctx, f)
	}
	_, err = c.callerResult(ctx, outcome{err: err, unsent: true})
	return err
}

// Fail ends the call with that id with err. unsent says that the peer has certainly
// not seen the request. If the call has ended, Fail does nothing.
func (c *Conn) Fail(id int64, err error, unsent bool) {
	c.resolve(id, outcome{err: err, unsent: unsent})
}

// FailUnusable ends the call with that id because its answer cannot be used. If the
// call has ended, it does nothing.
func (c *Conn) FailUnusable(id int64, err error) { c.failUnusable(id, err, nil) }

// failUnusable is FailUnusable for an answer that came on a stream; nil: that of the
// call.
func (c *Conn) failUnusable(id int64, err error, on Stream) {
	c.mu.Lock()
	p := c.state.calls[id]
	elsewhere := p != nil && on != nil && p.stream != on
	if elsewhere && p.ownStreamOnly {
		p = nil
	}
	if p != nil {
		c.state.take(id)
	}
	c.mu.Unlock()
	if p != nil {
		c.conclude(p, outcome{err: c.errors.Unusable(p.method, err), elsewhere: elsewhere})
	}
}

// failStream ends the calls that were made on a stream which the peer has
// abandoned.
func (c *Conn) failStream(on Stream, err error) {
	c.mu.Lock()
	calls := c.state.takeOn(on)
	c.mu.Unlock()
	for _, p := range calls {
		c.conclude(p, outcome{err: err})
	}
}

// Answer completes the call with that id with a reply, unless the call has ended. It
// is for transports that know without an id which call a reply is for.
func (c *Conn) Answer(id int64, reply wire.Reply, on Stream) {
	c.answeredBy(id, reply, wire.Message{Result: reply.Result, Error: reply.Error}, nil, on)
}

// ReserveID returns an id for a request that a transport makes by itself.
func (c *Conn) ReserveID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.ids.next()
}

// resolve gives the call with that id its outcome, unless it has one.
func (c *Conn) resolve(id int64, o outcome) {
	c.mu.Lock()
	p := c.state.take(id)
	c.mu.Unlock()
	if p != nil {
		c.conclude(p, o)
	}
}

// conclude gives a call its outcome. The caller has removed it from those in
// flight.
func (c *Conn) conclude(p *call, o outcome) {
	c.mu.Lock()
	now, stopSend, callStream := c.state.settle(p, o), p.stopSend, p.callStream
	c.mu.Unlock()
	if stopSend != nil {
		stopSend(o.err)
	}
	if callStream != nil {
		callStream.Settled(o.err == nil, o.elsewhere)
	}
	if now {
		c.deliver(p, o)
	}
}

// deliver passes the outcome of a call to its caller. No progress callback of the
// call is running or will run, unless the call goes on as a task.
func (c *Conn) deliver(p *call, o outcome) {
	p.endSpan(o.reply, o.err)
	complete := p.complete
	if p.task != "" {
		c.mu.Lock()
		c.state.strip(p)
		c.mu.Unlock()
	}
	if complete == nil {
		p.result <- o
		return
	}
	if p.task == "" {
		c.recycle(p)
	}
	if o.err == nil {
		complete(o.reply, nil)
		return
	}
	complete(wire.Reply{}, func(ctx context.Context) (wire.Reply, error) { return c.callerResult(ctx, o) })
}

// cancelCall cancels a call, unless it has ended, and notifies the peer.
func (c *Conn) cancelCall(id int64, cause error) {
	c.mu.Lock()
	p := c.state.abandon(id, time.Now())
	if p == nil {
		c.mu.Unlock()
		return
	}
	waiting := c.state.cancelWaiting(p, cause)
	c.mu.Unlock()
	if !waiting { // else sendLater notifies the peer if the request is sent nevertheless
		c.notifyCancelled(id, p.method, p.stream, cause)
	}
	c.conclude(p, outcome{err: cause})
}

// notifyCancelled notifies the peer that a call is cancelled, if the peer may have
// seen the request.
func (c *Conn) notifyCancelled(id int64, method string, on Stream, cause error) {
	if on.Withdraw(id) {
		c.mu.Lock()
		c.state.acknowledge(id)
		c.mu.Unlock()
		return
	}
	if method == protocol.MethodInitialize {
		return
	}
	f := Frame{Cancels: id, conn: c, Data: wire.Notification(
		protocol.NotificationCancelled, wire.CancelParams(cause, id))}
	if err := on.Push(f); errors.Is(err, ErrFinished) && on != c.opts.Main {
		_ = c.opts.Main.Push(f) // the main stream is never finished
	}
}

// withToken sets our progress token in params, or removes a token of the caller.
func (c *Conn) withToken(call wire.Call, id int64) ([]byte, error) {
	params := call.Params
	if call.Progress != nil {
		out, err := wire.Set(params, c.state.ids.token(id), "_meta", "progressToken")
		if err != nil {
			return nil, wire.Errorf(wire.CodeInvalidParams, "invalid params: params and params._meta must be objects")
		}
		return out, nil
	}
	if _, ok := wire.Get(params, "_meta", "progressToken"); !ok {
		return params, nil
	}
	out, err := wire.Delete(params, "_meta", "progressToken")
	if err != nil { // not objects, so there is no token; the peer may refuse them
		return params, nil
	}
	return out, nil
}

// newCall reuses a call that has ended, or makes one. Each connection has its own
// pool because a channel made in a synctest bubble must not be used outside it.
func (c *Conn) newCall(of Call) *call {
	p, ok := c.callPool.Get().(*call)
	if !ok {
		p = &call{result: make(chan outcome, 1)}
	}
	p.method, p.stream, p.progress, p.late, p.owner, p.group = of.Method, of.Stream, of.Progress, of.Late, of.Owner, of.Group
	if p.stream == nil {
		p.stream = c.opts.Main
	} else if cs, ok := p.stream.(CallStream); ok {
		p.callStream, p.ownStreamOnly = cs, !of.AnyStream
	}
	p.limit = of.Limit
	p.asksTask = of.Progress != nil && asksForTask(of.Params)
	if isTaskMethod(of.Method) {
		p.params = of.Params
	}
	return p
}

// recycle returns a call that has ended to the pool.
func (c *Conn) recycle(p *call) {
	*p = call{result: p.result}
	c.callPool.Put(p)
}
