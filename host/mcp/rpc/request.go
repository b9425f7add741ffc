package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Request is a request of the peer. The handler answers a Request once, with Reply or Start. The
// methods are safe for concurrent use.
//
// A task that reports progress, for example, may keep a Request after the answer. The Request then
// refers to no part of the message, because the message's memory is returned with the answer.
type Request struct {
	// ID is raw. nil if the request was refused because another request has the same id, and after
	// the answer.
	ID     []byte
	Method string
	Params []byte // raw; nil if absent, and after the answer

	conn  *Conn
	on    Stream
	batch *batch // the batch of the request; nil for none
	key   string // in state.requests
	token []byte // the progress token; nil for none
	span  Span   // nil for none
	bytes int    // counted for the request; see Conn.admitBytes

	work func(ctx context.Context, r *Request) wire.Reply
	ctx  context.Context // of work
	end  context.CancelCauseFunc

	// Guarded by Conn.mu:
	phase   phase
	replied bool
	cause   error             // the reason for dropping the request
	cancel  func(cause error) // cancels the work; nil before the start of the work
}

// phase is the state of a request of the peer.
type phase int

const (
	working  phase = iota // messages for the request are sent on the request's stream
	answered              // messages for the request are sent on the main stream
	ongoing               // like answered, but the answer was a task, which may still report progress
	dropped               // cancelled; no further messages for the request are sent
)

// request handles a request of the peer.
func (c *Conn) request(m wire.Message, on Stream, b *batch) {
	c.charge(len(m.Params))
	if b == nil && !c.acquire() {
		return
	}
	if m.Method == protocol.MethodPing && (c.opts.HandlesPing == nil || !c.opts.HandlesPing(m.Params)) {
		c.respond(on, b, m.ID, wire.Reply{Result: []byte("{}")})
		return
	}
	r := &Request{ID: m.ID, Method: m.Method, Params: m.Params, conn: c, on: on, batch: b}
	if !c.opts.SharedIDs {
		r.key = wire.IDKey(m.ID)
	}
	r.token = progressToken(m.Params)
	bad := c.admitBytes(r)
	c.mu.Lock()
	if c.opts.SharedIDs {
		r.key = c.state.uniqueKey()
	}
	if bad == nil {
		bad = c.state.admit(r, c.opts.MaxRequests)
	}
	if bad == nil {
		c.inbound.Add(1) // under the lock: none is added once Close waits
	}
	c.mu.Unlock()
	if bad != nil {
		c.settleBytes(r)
		c.respond(on, b, r.ID, wire.Reply{Error: bad.Raw()})
		return
	}
	c.opts.Handler.Request(r)
}

// acquire waits until fewer than MaxAnswers answers are unwritten. acquire returns false if the
// connection ends first.
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

// respond answers the request with a raw id, for which acquire was called. The zero Reply means no
// answer.
func (c *Conn) respond(on Stream, b *batch, id []byte, reply wire.Reply) {
	if b != nil {
		b.respond(id, reply)
		return
	}
	reply, bytes := c.countAnswer(reply)
	c.finish(on, response(id, reply), bytes, false)
}

// response returns the answering message of a request, nil for no answer.
func response(id []byte, reply wire.Reply) []byte {
	if reply.Result == nil && reply.Error == nil {
		return nil
	}
	return wire.Response(id, reply)
}

// finish sends the last message for a frame of the peer; nil for no message. bytes are counted for
// the message. alone is set if no other request of the peer is in flight.
func (c *Conn) finish(on Stream, data []byte, bytes int, alone bool) {
	if data == nil {
		<-c.answers
		on.Finish(Frame{})
		return
	}
	on.Finish(Frame{Data: data, conn: c, answer: true, bytes: bytes, alone: alone})
}

// Reply answers the request without blocking. Reply returns false if the request must not be
// answered because of a cancellation (revision 2025-11-25, basic/utilities/cancellation), or has
// been answered before.
func (r *Request) Reply(reply wire.Reply) bool {
	after := answered
	if r.token != nil && ongoingTask(reply.Result) != "" {
		after = ongoing
	}
	c := r.conn
	c.mu.Lock()
	drop, ok := c.state.answer(r, after)
	alone := c.state.open == 0
	c.mu.Unlock()
	if !ok {
		return false
	}
	if r.span != nil { // r.cause no longer changes
		r.span.End(reply, r.cause)
	}
	if drop {
		reply = wire.Reply{}
	}
	c.settleBytes(r)
	if r.batch != nil {
		r.batch.respond(r.ID, reply)
	} else {
		reply, bytes := c.countAnswer(reply)
		c.finish(r.on, response(r.ID, reply), bytes, alone)
	}
	r.ID, r.Params = nil, nil
	c.inbound.Done()
	return !drop
}

// Start runs work on a goroutine and answers the request with the reply of work. The context of
// work ends with the connection (cause: the error given to End), when the peer cancels the request
// (cause: a *wire.CancelledError), or when work has returned. Start does not block, and may be
// called after OnCancel.
func (r *Request) Start(work func(ctx context.Context, r *Request) wire.Reply) {
	r.work = work
	r.ctx, r.end = context.WithCancelCause(r.conn.ctx)
	r.onCancel(r.end, true)
	r.conn.workers.start(r)
}

// OnCancel sets the function to cancel the work for a request, unless Start was called before. The
// function is called at once if the request has already been cancelled, or if the connection has
// ended.
func (r *Request) OnCancel(cancel func(cause error)) { r.onCancel(cancel, false) }

func (r *Request) onCancel(cancel func(cause error), replace bool) {
	r.conn.mu.Lock()
	cause := r.conn.state.onCancel(r, cancel, replace)
	r.conn.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
}

// run does the work of a request and answers the request.
func (r *Request) run() {
	defer r.end(nil)
	work := r.work
	r.work = nil // r.work may refer to the params
	reply := work(r.ctx, r)
	if reply.Result == nil && reply.Error == nil {
		reply.Error = wire.Errorf(wire.CodeInternal, "%s ended without an answer: %v", r.Method, context.Cause(r.ctx)).Raw()
	}
	r.Reply(reply)
}

// Handler returns the handler of the connection of the request.
func (r *Request) Handler() Handler { return r.conn.opts.Handler }

// InBatch reports whether the request came in a JSON-RPC batch.
func (r *Request) InBatch() bool { return r.batch != nil }

// Cancelled reports whether the peer has cancelled the request; the reply will not be sent.
func (r *Request) Cancelled() bool { return r.currentPhase() == dropped }

// Stream returns the stream for messages about the request: the request's own stream, or the main
// stream after the answer.
func (r *Request) Stream() Stream {
	if r.currentPhase() == working {
		return r.on
	}
	return r.conn.opts.Main
}

func (r *Request) currentPhase() phase {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	return r.phase
}

// Notify sends a notification as part of the request.
func (r *Request) Notify(ctx context.Context, method string, params []byte) error {
	return r.conn.Notify(ctx, r.Stream(), method, params)
}

// Call makes a call as part of the request.
func (r *Request) Call(ctx context.Context, call Call) (wire.Reply, error) {
	call.Stream = r.Stream()
	return r.conn.Call(ctx, call)
}

// WantsProgress reports whether the request has a progress token.
func (r *Request) WantsProgress() bool { return r.token != nil }

// Progress sends a progress notification with the raw params, with the peer's token in place of the
// proxy's. Progress waits for room on the stream. After a cancellation or an answer the token is
// invalid, and no notification is sent. After a task as the answer the token remains valid.
func (r *Request) Progress(params []byte) {
	params, err := wire.Set(params, r.token, "progressToken")
	if err != nil {
		r.conn.log.Warn("malformed progress notification dropped", "err", err)
		return
	}
	f := Frame{Data: wire.Notification(protocol.NotificationProgress, params), conn: r.conn}
	if r.currentPhase() == working {
		err := r.conn.send(r.on, f)
		if !errors.Is(err, ErrFinished) {
			r.conn.dropped(err)
			return
		}
	}
	if r.currentPhase() == ongoing {
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

// cancelled cancels the request named in a notifications/cancelled. initialize cannot be cancelled
// (revision 2025-11-25, basic/lifecycle).
func (c *Conn) cancelled(params []byte) {
	id, ok := wire.Get(params, "requestId")
	if !ok || c.opts.SharedIDs {
		return
	}
	key := wire.IDKey(id)
	found := c.Drop(&wire.CancelledError{Params: params}, func(r *Request) bool {
		return r.key == key && r.Method != protocol.MethodInitialize
	})
	if found == 0 && !c.endListening(id) {
		c.log.Debug("cancellation of no request in flight dropped", "id", excerpt(string(id)))
	}
}

// endListening ends a listening call of the proxy after a cancellation by the server. A
// cancellation is one of two ways in which a server ends a subscription over stdio (revision
// 2026-07-28, basic/patterns/cancellation); an answer is the second.
func (c *Conn) endListening(raw []byte) bool {
	id, ok := ownID(raw)
	if !ok {
		return false
	}
	c.mu.Lock()
	p := c.state.calls[id]
	listens := p != nil && p.method == protocol.MethodListen
	c.mu.Unlock()
	if listens {
		c.Fail(id, c.errors.Down("it has ended the subscription", nil), false)
	}
	return listens
}

// Drop cancels the peer's requests in flight for which match returns true; they are not answered.
// Drop returns the number of cancelled requests. match must not block.
func (c *Conn) Drop(cause error, match func(r *Request) bool) int {
	c.mu.Lock()
	before := len(c.state.requests)
	cancels := c.state.drop(cause, match)
	n := before - len(c.state.requests)
	c.mu.Unlock()
	for _, cancel := range cancels {
		cancel(cause)
	}
	return n
}

// Abandon handles a stream closed by the peer: the requests on the stream are dropped, and the
// calls made on the stream fail with cause.
func (c *Conn) Abandon(on Stream, cause error) {
	c.Drop(cause, func(r *Request) bool { return r.on == on })
	c.failStream(on, cause)
}

// maxToken is the size of the largest progress token in use, in bytes.
const maxToken = 1 << 10

// progressToken returns a copy of the raw progress token of a request, nil if the token is absent,
// too large, or neither a string nor a number.
func progressToken(params []byte) []byte {
	token, ok := wire.Get(params, "_meta", "progressToken")
	if !ok || len(token) > maxToken || !json.Valid(token) {
		return nil
	}
	switch token[0] {
	case '{', '[', 'n', 't', 'f':
		return nil
	}
	return bytes.Clone(token)
}
