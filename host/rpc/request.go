package rpc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Request is a request of the peer. Its handler answers it once, with Reply or
// Start. Its methods are safe for concurrent use.
type Request struct {
	// ID is raw; nil once it was refused since another request has it.
	ID     []byte
	Method string
	Params []byte // raw; nil if absent

	conn  *Conn
	on    Stream
	batch *batch // that it came in; nil for none
	key   string // in state.requests
	token []byte // of its progress; nil for none

	work func(ctx context.Context, r *Request) wire.Reply
	ctx  context.Context // of work
	end  context.CancelCauseFunc

	// Guarded by Conn.mu:
	phase   phase
	replied bool
	cause   error             // why it was dropped
	cancel  func(cause error) // what cancels its work; nil for none yet
}

// phase is where a request of the peer is in its life.
type phase int

const (
	working  phase = iota // its messages go to the stream that it came on
	answered              // they go to the main stream
	ongoing               // the same, and the answer was a task, which may still report progress
	dropped               // cancelled: the peer has forgotten it
)

// request takes a request of the peer.
func (c *Conn) request(m wire.Message, on Stream, b *batch) {
	c.unasked(len(m.Params))
	if b == nil && !c.acquire() {
		return
	}
	if m.Method == protocol.MethodPing {
		c.respond(on, b, m.ID, wire.Reply{Result: []byte("{}")})
		return
	}
	r := &Request{ID: m.ID, Method: m.Method, Params: m.Params, conn: c, on: on, batch: b, key: wire.IDKey(m.ID)}
	r.token = progressToken(m.Params)
	c.mu.Lock()
	bad := c.state.admit(r, c.opts.MaxRequests)
	if bad == nil {
		c.open.Add(1) // under the lock: none is added once Close waits
	}
	c.mu.Unlock()
	if bad != nil {
		c.respond(on, b, r.ID, wire.Reply{Error: bad.Raw()})
		return
	}
	c.opts.Handler.Request(r)
}

// acquire waits until the answer to another frame of the peer may wait; false
// when the connection ends before.
func (c *Conn) acquire() bool {
	select {
	case c.answers <- struct{}{}:
		return true
	default:
	}
	select {
	case c.answers <- struct{}{}:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// respond answers the request with a raw id, for which acquire was called. The
// zero Reply says that there is no answer.
func (c *Conn) respond(on Stream, b *batch, id []byte, reply wire.Reply) {
	if b != nil {
		b.respond(id, reply)
		return
	}
	var data []byte
	if reply.Result != nil || reply.Error != nil {
		data = wire.Response(id, reply)
	}
	c.finish(on, data)
}

// finish sends the last message for one frame of the peer; nil if there is none.
func (c *Conn) finish(on Stream, data []byte) {
	if data == nil {
		<-c.answers
		on.Finish(Frame{})
		return
	}
	if c.opts.Count != nil {
		c.opts.Count(data)
	}
	on.Finish(Frame{Data: data, conn: c, answer: true})
}

// Reply answers the request. It does not block. It is false when the request
// must not be answered, because it was cancelled (revision 2025-11-25,
// basic/utilities/cancellation), or has been answered before.
func (r *Request) Reply(reply wire.Reply) bool {
	after := answered
	if r.token != nil && ongoingTask(reply.Result) != "" {
		after = ongoing
	}
	c := r.conn
	c.mu.Lock()
	drop, ok := c.state.answer(r, after)
	c.mu.Unlock()
	if !ok {
		return false
	}
	if drop {
		reply = wire.Reply{}
	}
	c.respond(r.on, r.batch, r.ID, reply)
	c.open.Done()
	return !drop
}

// Start has work answer the request, on a goroutine. The context of work ends
// with the connection (cause: the error of its end), when the peer cancels the
// request (cause: a *wire.CancelledError), or once work has returned. It does
// not block, and may be called after OnCancel.
func (r *Request) Start(work func(ctx context.Context, r *Request) wire.Reply) {
	r.work = work
	r.ctx, r.end = context.WithCancelCause(r.conn.ctx)
	r.onCancel(r.end, true)
	r.conn.workers.start(r)
}

// OnCancel sets what cancels the work of a request that no goroutine waits for,
// unless Start was called before. It is called at once if the request has been
// cancelled already, or the connection has ended.
func (r *Request) OnCancel(cancel func(cause error)) { r.onCancel(cancel, false) }

func (r *Request) onCancel(cancel func(cause error), replace bool) {
	r.conn.mu.Lock()
	cause := r.conn.state.onCancel(r, cancel, replace)
	r.conn.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
}

// run does the work of a request and answers it.
func (r *Request) run() {
	defer r.end(nil)
	reply := r.work(r.ctx, r)
	if reply.Result == nil && reply.Error == nil {
		reply.Error = wire.Errorf(wire.CodeInternal, "%s ended without an answer: %v", r.Method, context.Cause(r.ctx)).Raw()
	}
	r.Reply(reply)
}

// Handler is the handler of the connection that the request came on.
func (r *Request) Handler() Handler { return r.conn.opts.Handler }

// Cancelled tells whether the peer has cancelled the request, so that its reply
// will not be sent.
func (r *Request) Cancelled() bool { return r.at() == dropped }

// Owners are those of the calls that the request may belong to; see
// wire.Inbound. While the handler has not returned they are those of the moment
// when the request came.
func (r *Request) Owners() []any { return r.conn.ownersOf(r.on)() }

// Stream is where messages that belong to the request go now: the stream that it
// came on, or the main one once it was answered.
func (r *Request) Stream() Stream {
	if r.at() == working {
		return r.on
	}
	return r.conn.opts.Main
}

func (r *Request) at() phase {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	return r.phase
}

// Notify sends a notification that belongs to the request.
func (r *Request) Notify(ctx context.Context, method string, params []byte) error {
	return r.conn.Notify(ctx, r.Stream(), method, params)
}

// Call makes a call that belongs to the request.
func (r *Request) Call(ctx context.Context, call Call) (wire.Reply, error) {
	call.Stream = r.Stream()
	return r.conn.Call(ctx, call)
}

// WantsProgress tells whether the peer gave a progress token.
func (r *Request) WantsProgress() bool { return r.token != nil }

// Progress sends a progress notification with the raw params, in which the
// peer's token takes the place of ours. It waits for room on the stream. After a
// cancellation or an answer the peer has forgotten the token, and nothing is
// sent; after an answer that is a task it is still good.
func (r *Request) Progress(params []byte) {
	params, err := wire.Set(params, r.token, "progressToken")
	if err != nil {
		r.conn.log.Warn("malformed progress notification dropped", "err", err)
		return
	}
	f := Frame{Data: wire.Notification(protocol.NotificationProgress, params), conn: r.conn}
	if r.at() == working {
		err := r.conn.send(r.on, f)
		if !errors.Is(err, ErrFinished) {
			r.conn.dropped(err)
			return
		}
	}
	if r.at() == ongoing {
		r.conn.dropped(r.conn.send(r.conn.opts.Main, f))
	}
}

func (c *Conn) send(on Stream, f Frame) error {
	if on.TrySend(f) {
		return nil
	}
	return on.Send(c.ctx, f)
}

func (c *Conn) dropped(err error) {
	if err != nil {
		c.log.Debug("message to a broken stream dropped", "err", err)
	}
}

// cancelled takes the request that a notifications/cancelled names out of flight.
// initialize cannot be cancelled (revision 2025-11-25, basic/lifecycle).
func (c *Conn) cancelled(params []byte) {
	id, ok := wire.Get(params, "requestId")
	if !ok {
		return
	}
	key := wire.IDKey(id)
	found := c.Drop(&wire.CancelledError{Params: params}, func(r *Request) bool {
		return r.key == key && r.Method != protocol.MethodInitialize
	})
	if found == 0 {
		c.log.Debug("cancellation of no request in flight dropped", "id", clip(string(id)))
	}
}

// Drop cancels the peer's requests in flight that which holds for: they are not
// answered. which must not block. It returns how many there were.
func (c *Conn) Drop(cause error, which func(r *Request) bool) int {
	c.mu.Lock()
	before := len(c.state.requests)
	cancels := c.state.drop(cause, which)
	n := before - len(c.state.requests)
	c.mu.Unlock()
	for _, cancel := range cancels {
		cancel(cause)
	}
	return n
}

// Abandon says that the peer has gone away from a stream: the requests that came
// on it are dropped, and the calls that went out on it fail with cause.
func (c *Conn) Abandon(on Stream, cause error) {
	c.Drop(cause, func(r *Request) bool { return r.on == on })
	c.failStream(on, cause)
}

// progressToken is the raw progress token of a request; nil if it has none, or
// one that is neither a string nor a number.
func progressToken(params []byte) []byte {
	token, ok := wire.Get(params, "_meta", "progressToken")
	if !ok || !json.Valid(token) {
		return nil
	}
	switch token[0] {
	case '{', '[', 'n', 't', 'f':
		return nil
	}
	return token
}
