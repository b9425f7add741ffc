package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// unwrittenWait is how long a call that could not be written waits for the end
// of the connection, which tells why.
const unwrittenWait = 100 * time.Millisecond

// Call is a request of ours.
type Call struct {
	wire.Call
	// Stream that the request goes out on; nil: the main one. Messages go to the
	// main one if it is finished.
	Stream Stream
	// Anywhere lets the answer come on the main stream, too, where Stream is a
	// CallStream.
	Anywhere bool
	// Limit is how long the call may take.
	Limit Limit
}

// Pending is a call that was submitted.
type Pending struct {
	conn *Conn
	id   int64
}

// ID is the id of the request on the wire.
func (p Pending) ID() int64 { return p.id }

// Cancel ends the call, unless it is over, as the end of the context of Conn.Call
// does. It does not block.
func (p Pending) Cancel(cause error) { p.conn.cancelCall(p.id, cause) }

// ErrFull says that a call was not submitted because its stream has no room: the
// peer does not read. Conn.Call waits for room.
var ErrFull = errors.New("the stream takes no request without waiting")

// Submit makes a call and does not wait for anything: the request is on its way
// when it returns, and complete is called once, by any goroutine and perhaps
// before that: with the reply, or with a continuation, which must be called and
// gives what Call would have returned. complete must not block; the continuation
// may.
//
// Progress callbacks run before it, in order, and none after it, unless the
// reply is a task that goes on; see Call.
//
// After an error nothing has been done and complete is not called: ErrFull, the
// error of a connection that has ended, or a *wire.RPCError for params that
// cannot hold a progress token.
func (c *Conn) Submit(call Call, complete wire.CompletionFunc) (Pending, error) {
	p := c.newCall(call)
	p.complete = complete
	on := p.stream
	f, err := c.register(p, call)
	if err != nil {
		return Pending{}, err
	}
	// From here on p may be over, and even be another call.
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
// ours, and Progress gets the raw params of each notifications/progress for it:
// by the goroutine that reads the stream they come on, one at a time and in
// order, all of those that came before the answer before Call returns, and none
// after. While Progress runs, that stream is not read. If Progress is nil, a
// progressToken in params is removed. Nothing else in params is changed.
//
// If params has a member "task" and the answer is a task that goes on (revision
// 2025-11-25, basic/utilities/tasks), Progress may be called after Call has
// returned, until the connection sees the end of the task: in its status
// notification, or in the answer to a request about it. That holds for the last
// 1024 tasks.
//
// When ctx ends first, Call returns its cause without waiting for the peer,
// which gets notifications/cancelled with the request's own id: made of the
// notification of the client if the cause is a *wire.CancelledError, so that its
// reason and _meta travel. If the request had not been written, it never will
// be, and there is no notification. A late answer is dropped. The request
// initialize is given up without a notification (revision 2025-11-25,
// basic/utilities/cancellation).
//
// Other errors are those of Options.Errors, of the stream, a *wire.DeniedError,
// or a *wire.RPCError for params that cannot hold a progress token.
func (c *Conn) Call(ctx context.Context, call Call) (wire.Reply, error) {
	p := c.newCall(call)
	f, err := c.register(p, call)
	if err != nil {
		return wire.Reply{}, err
	}
	if ctx.Err() != nil || !p.stream.TrySend(f) {
		if err := c.sendLater(ctx, p, f); err != nil {
			c.recycle(p)
			return wire.Reply{}, err
		}
	}
	var o outcome
	select {
	case o = <-p.result:
	case <-ctx.Done():
		c.cancelCall(f.ID, context.Cause(ctx))
		o = <-p.result // the cause, or the answer that came just before
	}
	if p.task == "" {
		c.recycle(p)
	}
	return c.verdict(ctx, o)
}

// register prepares a call and puts it in flight. After an error the call is
// used up.
func (c *Conn) register(p *call, call Call) (f Frame, err error) {
	now := time.Now()
	p.begin(now)
	c.mu.Lock()
	p.id = c.state.ids.next()
	f.ID = p.id
	c.mu.Unlock()
	params, err := c.withToken(call.Call, f.ID)
	if err != nil {
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
		c.watchOver(p)
	}
	c.mu.Unlock()
	if err != nil {
		c.recycle(p)
		return Frame{}, c.errors.Unsent(err)
	}
	return f, nil
}

// remove takes a call out of flight whose request no stream has taken over. It
// is false when the call has had its outcome.
func (c *Conn) remove(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.take(id) != nil
}

// sendLater waits until a stream takes over the request of a call. After an error
// the call is over; without one its outcome is still to come, or there.
func (c *Conn) sendLater(ctx context.Context, p *call, f Frame) error {
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	waiting := c.state.startWaiting(p, cancel)
	c.mu.Unlock()
	if !waiting {
		return c.unsentOutcome(ctx, p)
	}
	err := p.stream.Send(sending, f)
	if errors.Is(err, ErrFinished) && c.moveToMain(p) {
		err = p.stream.Send(sending, f)
	}
	c.mu.Lock()
	cause, over := c.state.stopWaiting(p, err == nil)
	c.mu.Unlock()
	switch {
	case err == nil && cause != nil: // cancelled, and sent all the same
		c.takeBack(f.ID, p.method, p.stream, cause)
		return nil
	case err == nil:
		return nil
	case over:
		return c.unsentOutcome(ctx, p)
	}
	_, err = c.verdict(ctx, outcome{err: err, unsent: true})
	return err
}

// moveToMain has the request of a call sent on the main stream. It is false when
// it was to be sent there, or the call is over.
func (c *Conn) moveToMain(p *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.move(p, c.opts.Main)
}

// unsentOutcome is the error of a call that ended before a stream took it over.
func (c *Conn) unsentOutcome(ctx context.Context, p *call) error {
	o := <-p.result
	o.unsent = true
	_, err := c.verdict(ctx, o)
	return err
}

// verdict is what the caller of a call with that outcome is told.
func (c *Conn) verdict(ctx context.Context, o outcome) (wire.Reply, error) {
	if o.err == nil {
		return o.reply, nil
	}
	err := o.err
	if errors.Is(err, errUnwritten) {
		err = c.whyUnwritten(ctx)
	}
	if o.unsent {
		err = c.errors.Unsent(err)
	}
	return wire.Reply{}, err
}

// whyUnwritten waits for the end of the connection. What broke the stream mostly
// ends the connection as well and at once, and that end says more.
func (c *Conn) whyUnwritten(ctx context.Context) error {
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

// Unwritten is the error of a call, or a notification, that could not be written.
func (c *Conn) Unwritten() error { return c.whyUnwritten(context.Background()) }

// Notify sends a notification; params may be nil. It waits for room on the
// stream, nil for the main one, which also takes over where that is finished. If
// there is room, it is sent even if ctx has ended. The errors are those of Call.
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
	_, err = c.verdict(ctx, outcome{err: err, unsent: true})
	return err
}

// Fail ends the call with that id, unless it is over, with err; unsent says that
// the peer has surely not seen the request.
func (c *Conn) Fail(id int64, err error, unsent bool) {
	c.resolve(id, outcome{err: err, unsent: unsent})
}

// FailUnusable ends the call with that id, unless it is over: its answer cannot
// be used.
func (c *Conn) FailUnusable(id int64, err error) {
	c.mu.Lock()
	p := c.state.take(id)
	c.mu.Unlock()
	if p != nil {
		c.conclude(p, outcome{err: c.errors.Unusable(p.method, err)})
	}
}

// failStream ends the calls whose requests went out on a stream that the peer
// has gone away from.
func (c *Conn) failStream(on Stream, err error) {
	c.mu.Lock()
	calls := c.state.takeOn(on)
	c.mu.Unlock()
	for _, p := range calls {
		c.conclude(p, outcome{err: err})
	}
}

// Answer gives the call with that id its reply, unless it is over. It is for
// transports that know by other means than an id which call a reply is for.
func (c *Conn) Answer(id int64, reply wire.Reply, on Stream) {
	c.answeredBy(id, reply, wire.Message{Result: reply.Result, Error: reply.Error}, nil, on)
}

// ReserveID is an id for a request that a transport makes by itself.
func (c *Conn) ReserveID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.ids.next()
}

// resolve gives the call with that id its outcome, unless it is over.
func (c *Conn) resolve(id int64, o outcome) {
	c.mu.Lock()
	p := c.state.take(id)
	c.mu.Unlock()
	if p != nil {
		c.conclude(p, o)
	}
}

// conclude gives a call that was taken its outcome.
func (c *Conn) conclude(p *call, o outcome) {
	c.mu.Lock()
	now, waits, single := c.state.settle(p, o), p.waits, p.single
	c.mu.Unlock()
	if waits != nil {
		waits(o.err)
	}
	if single != nil {
		single.Settled(o.err == nil)
	}
	if now {
		c.deliver(p, o)
	}
}

// deliver tells whoever made a call of its outcome. No progress of it runs, or
// will, unless it goes on as a task.
func (c *Conn) deliver(p *call, o outcome) {
	complete := p.complete
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
	complete(wire.Reply{}, func(ctx context.Context) (wire.Reply, error) { return c.verdict(ctx, o) })
}

// cancelCall ends a call, unless it is over, and tells the peer.
func (c *Conn) cancelCall(id int64, cause error) {
	c.mu.Lock()
	p := c.state.abandon(id, time.Now())
	if p == nil {
		c.mu.Unlock()
		return
	}
	waiting := c.state.cancelWaiting(p, cause)
	c.mu.Unlock()
	if !waiting { // else sendLater tells the peer if the request leaves after all
		c.takeBack(id, p.method, p.stream, cause)
	}
	c.conclude(p, outcome{err: cause})
}

// takeBack tells the peer that a call is cancelled, if it may have seen it.
func (c *Conn) takeBack(id int64, method string, on Stream, cause error) {
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
		_ = c.opts.Main.Push(f) // that is never finished
	}
}

// withToken puts our progress token into params, or takes a token of the caller
// out.
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
	if err != nil { // no objects, so no token; the peer may judge them
		return params, nil
	}
	return out, nil
}

// newCall takes a call that is over, or makes one. The pool is the connection's
// own because a channel made in a synctest bubble cannot leave it.
func (c *Conn) newCall(of Call) *call {
	p, ok := c.spent.Get().(*call)
	if !ok {
		p = &call{result: make(chan outcome, 1)}
	}
	p.method, p.stream, p.progress, p.late, p.owner = of.Method, of.Stream, of.Progress, of.Late, of.Owner
	if p.stream == nil {
		p.stream = c.opts.Main
	} else if single, ok := p.stream.(CallStream); ok {
		p.single, p.private = single, !of.Anywhere
	}
	p.limit = of.Limit
	p.asksTask = of.Progress != nil && asksForTask(of.Params)
	if isTaskMethod(of.Method) {
		p.params = of.Params
	}
	return p
}

// recycle keeps a call that is over, to be used again.
func (c *Conn) recycle(p *call) {
	*p = call{result: p.result}
	c.spent.Put(p)
}
