package rpc

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// unwrittenWait is how long an unwritten call waits for the connection to end with an explanatory
// error.
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

// Pending is a submitted call.
type Pending struct {
	conn *Conn
	id   int64
}

// ID returns the id of the request on the wire.
func (p Pending) ID() int64 { return p.id }

// Cancel ends the call like the end of the context of Conn.Call. After the end of the call, Cancel
// does nothing. It does not block.
func (p Pending) Cancel(cause error) { p.conn.cancelCall(p.id, cause) }

// ErrFull means that a call was not submitted because the stream is full: the peer does not read.
// Conn.Call waits for room.
var ErrFull = errors.New("the stream takes no request without waiting")

// Submit makes a call without waiting: when Submit returns, the request has been passed to the
// stream. complete is called once, on any goroutine, perhaps before Submit returns. complete gets
// the reply, or a continuation, which must be called and returns the result of Call. complete must
// not block; the continuation may.
//
// Progress callbacks run before complete, in order, and none runs after complete, unless the reply
// is a continuing task; see Call.
//
// After an error the request has not been sent and complete is not called. The error is ErrFull,
// the error of an ended connection, or a *wire.RPCError for params that cannot hold a progress
// token.
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

// Call makes a call and waits for the answer, a result or a JSON-RPC error, as raw bytes owned by
// the caller.
//
// If call.Progress is not nil, params._meta.progressToken is set to a token of the proxy, and
// Progress is called with the raw params of each notifications/progress for the token. Progress
// runs on the goroutine that reads the stream of the notifications, one at a time and in order.
// Call returns after Progress has been called for every notification before the answer, and
// Progress is not called afterwards. While Progress runs, the stream is not read. If Progress is
// nil, a progressToken in params is removed. The rest of params is unchanged.
//
// If params has a member "task" and the answer is a continuing task (revision 2025-11-25,
// basic/utilities/tasks), Progress may be called after Call has returned, until the connection sees
// the end of the task: in the task's status notification, or in the answer to a request about the
// task. The last 1024 tasks are followed in this way.
//
// If ctx ends first, Call returns the cause of ctx without waiting for the peer. The peer gets
// notifications/cancelled with the id of the request. If the cause is a *wire.CancelledError, the
// notification has the reason and _meta of the client's notification. An unwritten request will
// never be written, and no notification is sent. A late answer is dropped. The request initialize
// is abandoned without a notification (revision 2025-11-25, basic/utilities/cancellation).
//
// Further errors come from Options.Errors or the stream, or are a *wire.DeniedError, or a
// *wire.RPCError for params that cannot hold a progress token.
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
		o = <-p.result // the cause, or an answer that just preceded the cancellation
	}
	if p.task == "" {
		c.recycle(p)
	}
	o.unsent = o.unsent || !accepted
	return c.callerResult(ctx, o)
}

// register prepares a call and adds the call to the calls in flight. After an error, p has been
// recycled.
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

// remove removes a call from the calls in flight if no stream has accepted the request. It returns
// false if the call has had an outcome.
func (c *Conn) remove(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.take(id) != nil
}

// sendLater waits until a stream accepts the request of a call, and reports the acceptance. In
// either case the outcome of the call follows, or has been delivered.
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

// moveToMain sets the main stream as the stream of the request of a call. It returns false if the
// stream was the main stream before, or if the call has ended.
func (c *Conn) moveToMain(p *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.move(p, c.opts.Main)
}

// callerResult returns the reply or error for the caller of a call with outcome o.
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

// unwrittenReason returns the error of an unwritten message. It waits a moment for the end of the
// connection, because the cause of the broken stream usually ends the connection too, with a more
// precise error.
func (c *Conn) unwrittenReason(ctx context.Context) error {
	t := time.NewTimer(unwrittenWait)
	defer t.Stop()
	select {
	case <-c.done:
		return c.Err()
	case <-t.C:
	case <-ctx.Done():
	}
	return c.errors.Down("it does not read its input", nil)
}

// Unwritten returns the error of an unwritten call or notification.
func (c *Conn) Unwritten() error { return c.unwrittenReason(context.Background()) }

// Notify sends a notification on a stream (nil: the main one), or on the main stream if the given
// stream is finished. params may be nil. Notify waits for room on the stream. If the stream has
// room, the notification is sent even if ctx has ended. The errors are the same as for Call.
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

// Fail ends the call with the given id with err. unsent is set if the peer has certainly not seen
// the request. If the call has ended, Fail does nothing.
func (c *Conn) Fail(id int64, err error, unsent bool) {
	c.resolve(id, outcome{err: err, unsent: unsent})
}

// FailUnusable ends the call with the given id because of an unusable answer. If the call has
// ended, FailUnusable does nothing.
func (c *Conn) FailUnusable(id int64, err error) { c.failUnusable(id, err, nil) }

// failUnusable is FailUnusable for an answer that came on a stream; nil: the stream of the call.
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

// failStream ends the calls on a stream that the peer has abandoned.
func (c *Conn) failStream(on Stream, err error) {
	c.mu.Lock()
	calls := c.state.takeOn(on)
	c.mu.Unlock()
	for _, p := range calls {
		c.conclude(p, outcome{err: err})
	}
}

// Answer completes the call with the given id with a reply, unless the call has ended. Answer is
// for transports that know the call of a reply without an id.
func (c *Conn) Answer(id int64, reply wire.Reply, on Stream) {
	c.answeredBy(id, reply, wire.Message{Result: reply.Result, Error: reply.Error}, nil, on)
}

// ReserveID returns an id for a request of the transport's own.
func (c *Conn) ReserveID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.ids.next()
}

// resolve gives the call with the given id an outcome, unless the call has an outcome.
func (c *Conn) resolve(id int64, o outcome) {
	c.mu.Lock()
	p := c.state.take(id)
	c.mu.Unlock()
	if p != nil {
		c.conclude(p, o)
	}
}

// conclude gives a call its outcome. The caller has removed the call from the calls in flight.
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

// deliver passes the outcome of a call to its caller. No progress callback of the call is running
// or will run, unless the call continues as a task.
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

// notifyCancelled notifies the peer of a cancelled call, if the peer may have seen the request.
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
	if err != nil { // params that are no object have no token; the peer may refuse them
		return params, nil
	}
	return out, nil
}

// newCall reuses an ended call, or makes a new call. Each connection has its own pool because a
// channel made in a synctest bubble must not be used outside it.
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

// recycle returns an ended call to the pool.
func (c *Conn) recycle(p *call) {
	*p = call{result: p.result}
	c.callPool.Put(p)
}

// Limit says how long a call may take. The zero value means no limit.
type Limit struct {
	// Idle is the longest time without activity: progress of the call, or a request of the peer in
	// work, because the peer may be waiting for the answer. 0: no limit.
	Idle time.Duration
	// Max is the longest total time. 0: no limit.
	Max time.Duration
}

// One timer serves all calls of a connection. The timer is set for the earliest due time, or
// earlier: activity only changes call.due, and then the timer fires too early.

// begin starts the limits of a call.
func (p *call) begin(now time.Time) {
	if p.limit.Max > 0 {
		p.latest = now.Add(p.limit.Max)
	}
	p.restart(now)
}

// restart restarts the idle limit of a call.
func (p *call) restart(now time.Time) {
	p.due = p.latest
	if p.limit.Idle <= 0 {
		return
	}
	if idle := now.Add(p.limit.Idle); p.due.IsZero() || idle.Before(p.due) {
		p.due = idle
	}
}

// scheduleLimit sets the timer to the due time of a new call, or earlier. The caller holds c.mu.
func (c *Conn) scheduleLimit(p *call) {
	s := &c.state
	switch {
	case p.due.IsZero():
	case !s.timerSet:
		c.setTimer(p.due)
	case p.due.Before(s.timerAt) && c.limitTimer.Stop(): // else checkLimits is about to run, and will see the call
		s.timerAt = p.due
		c.limitTimer.Reset(time.Until(p.due))
	}
}

// setTimer sets the timer, which must not be set. The caller holds c.mu.
func (c *Conn) setTimer(due time.Time) {
	c.state.timerSet, c.state.timerAt = true, due
	c.timers.Add(1) // until checkLimits has returned, or the timer is stopped
	if c.limitTimer == nil {
		c.limitTimer = time.AfterFunc(time.Until(due), c.checkLimits)
	} else {
		c.limitTimer.Reset(time.Until(due))
	}
}

// stopTimer stops the timer. The caller holds c.mu.
func (c *Conn) stopTimer() {
	if c.state.timerSet && c.limitTimer.Stop() {
		c.state.timerSet = false
		c.timers.Done()
	}
}

// overdue is a call above a limit.
type overdue struct {
	id     int64
	method string
	after  time.Duration
	max    bool
}

// checkLimits cancels the calls above a limit.
func (c *Conn) checkLimits() {
	defer c.timers.Done()
	c.mu.Lock()
	over, next := c.state.overdue(time.Now())
	c.state.timerSet = false
	if !next.IsZero() {
		c.setTimer(next)
	}
	c.mu.Unlock()
	for _, o := range over {
		c.cancelCall(o.id, c.errors.Timeout(o.method, o.after, o.max))
	}
}

// overdue returns the calls above a limit, and the earliest due time of the remaining calls; zero
// for never.
func (s *state) overdue(now time.Time) (over []overdue, next time.Time) {
	for id, p := range s.calls {
		switch {
		case p.due.IsZero():
			continue
		case now.Before(p.due):
		case !p.latest.IsZero() && !now.Before(p.latest):
			over = append(over, overdue{id, p.method, p.limit.Max, true})
			continue
		case p.busy || s.open > 0: // the peer waits for us, or for a slow client
			p.restart(now)
		default:
			over = append(over, overdue{id, p.method, p.limit.Idle, false})
			continue
		}
		if next.IsZero() || p.due.Before(next) {
			next = p.due
		}
	}
	return over, next
}

// progress handles a progress notification of the peer.
func (c *Conn) progress(params []byte) {
	token, _ := wire.Get(params, "progressToken")
	id, _ := c.state.ids.ofToken(token)
	c.mu.Lock()
	p, late := c.state.beginProgress(id, c.progressReturned)
	task := p != nil && p.task != ""
	c.mu.Unlock()
	if p == nil || task || len(params) > smallSize {
		// Progress of a task is charged too, because a task may last forever, and large
		// notifications, because the client may read slowly.
		c.charge(len(params))
	}
	if p == nil {
		if late != nil {
			late("progress")
		}
		c.log.Debug("progress for no request in flight dropped", "token", excerpt(string(token)))
		return
	}
	p.progress(params)
	c.mu.Lock()
	deliver := c.state.endProgress(p, time.Now())
	o := p.outcome
	c.progressReturned.Broadcast()
	c.mu.Unlock()
	if deliver {
		c.deliver(p, o)
	}
}

// asksForTask reports whether params ask for a task.
func asksForTask(params []byte) bool {
	if !bytes.Contains(params, []byte(`"task"`)) {
		return false
	}
	_, ok := wire.Get(params, "task")
	return ok
}

func isTaskMethod(method string) bool {
	return method == protocol.MethodTasksResult || method == protocol.MethodTasksGet || method == protocol.MethodTasksCancel
}

// ongoingTask returns the id of the task in a result, "" for a result without a task or with an
// ended task.
func ongoingTask(result []byte) string {
	if !bytes.Contains(result, []byte(`"taskId"`)) { // most results are not tasks, and they may be large
		return ""
	}
	created, ok := wire.Get(result, "task")
	if !ok {
		return ""
	}
	if status, _ := wire.GetString(created, "status"); terminal(status) {
		return ""
	}
	id, _ := wire.GetString(created, "taskId")
	return id
}

func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// taskAnswered handles the answer to a request about a task.
func (c *Conn) taskAnswered(method string, params []byte, reply wire.Reply) {
	if method == protocol.MethodTasksResult { // answered when the task has ended or is unknown
		id, _ := wire.GetString(params, "taskId")
		c.endTask(id)
	} else if reply.Error == nil {
		c.taskStatus(reply.Result)
	}
}

// taskStatus handles a task object of the peer.
func (c *Conn) taskStatus(object []byte) {
	if status, _ := wire.GetString(object, "status"); terminal(status) {
		id, _ := wire.GetString(object, "taskId")
		c.endTask(id)
	}
}

func (c *Conn) endTask(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.endTask(id)
}
