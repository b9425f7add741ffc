package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

// workers runs requests on goroutines. Some idle goroutines are kept for further requests: their
// stacks need not grow again.
type workers struct {
	keep int             // the largest number of idle goroutines
	ctx  context.Context // idle goroutines end with ctx
	next chan *Request   // received by idle goroutines
	idle atomic.Int32    // the number of idle goroutines
	all  sync.WaitGroup
}

// start runs a request.
func (w *workers) start(r *Request) {
	select {
	case w.next <- r:
	default:
		w.all.Go(func() { w.run(r) })
	}
}

func (w *workers) run(r *Request) {
	for {
		r.run()
		if int(w.idle.Add(1)) > w.keep {
			w.idle.Add(-1)
			return
		}
		select {
		case r = <-w.next:
			w.idle.Add(-1)
		case <-w.ctx.Done():
			return
		}
	}
}

// batch collects the responses to a batch of the peer.
type batch struct {
	conn *Conn
	on   Stream

	mu        sync.Mutex
	open      int // messages of the batch that still need an answer
	responses []byte
	bytes     int // bytes counted for the answers
}

// receiveBatch handles a batch, or a malformed batch that cannot be split because of err. All
// requests of a batch are answered with one array (JSON-RPC 2.0, section 6).
func (c *Conn) receiveBatch(items [][]byte, err error, raw []byte, on Stream) (waits bool) {
	if err == nil && len(items) == 0 {
		err = wire.Errorf(wire.CodeInvalidRequest, "invalid request: empty batch")
	}
	if err != nil {
		return c.malformed(wire.Message{}, err, raw, on, nil)
	}
	type parsed struct {
		m   wire.Message
		err error
	}
	b := &batch{conn: c, on: on}
	all := make([]parsed, len(items))
	for i, item := range items {
		m, err := c.parse(item)
		all[i] = parsed{m, err}
		if c.wantsAnswer(m, err) {
			b.open++
		}
	}
	waits = b.open > 0
	if waits && !c.acquire() {
		return false
	}
	for i, p := range all {
		c.message(p.m, p.err, items[i], on, b)
	}
	return waits
}

// respond adds a reply; the zero Reply means no reply. After the last reply, all are sent.
func (b *batch) respond(id []byte, reply wire.Reply) {
	reply, bytes := b.conn.countAnswer(reply)
	b.mu.Lock()
	b.bytes += bytes
	if reply.Result != nil || reply.Error != nil {
		b.responses = append(append(b.responses, ','), wire.Response(id, reply)...)
	}
	b.open--
	last := b.open == 0
	b.mu.Unlock()
	if !last {
		return
	}
	if len(b.responses) > 0 {
		b.responses[0] = '['
		b.responses = append(b.responses, ']')
	}
	b.conn.finish(b.on, b.responses, b.bytes, false)
}

// Candidates are the calls that a request of the peer may belong to: the call of the request's
// stream, or all calls with an owner that were in flight or had been cancelled recently when the
// request arrived. Candidates are safe for concurrent use.
type Candidates struct {
	conn  *Conn // nil if the call is known
	calls []candidate
}

type candidate struct {
	id        int64
	owner     any
	cancelled bool // already when the request arrived
	abandoned bool // cancelled since, which left has seen; guarded by Conn.mu
}

// Candidates returns the candidates of the request. Before the handler returns, they are the calls
// at the time of the request's arrival.
func (r *Request) Candidates() *Candidates {
	if call, ok := r.on.(CallStream); ok {
		if id, owner := call.Call(); owner != nil {
			return &Candidates{calls: []candidate{{id: id, owner: owner}}}
		}
		return &Candidates{}
	}
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	return &Candidates{r.conn, r.conn.state.candidates(time.Now())}
}

// Owners returns the owners of all candidates; see wire.Inbound.
func (c *Candidates) Owners() []any { return ownersOf(c.calls) }

// Await implements wire.Inbound.Await.
func (c *Candidates) Await(ctx context.Context, decided func(owners []any) bool) []any {
	for {
		left, ended, expiry := c.left()
		owners := ownersOf(left)
		if decided(owners) || ctx.Err() != nil {
			return owners
		}
		awaitEnd(ctx, ended, expiry)
	}
}

// left returns the candidates in flight, a channel that is closed when a call ends, and the time
// when the first cancelled candidate is forgotten; zero for never. A call that was cancelled after
// the request arrived counts for as long as the request waits, even after a late answer: the peer
// may just have left its question open.
func (c *Candidates) left() (left []candidate, ended <-chan struct{}, expiry time.Time) {
	if c.conn == nil {
		return c.calls, nil, expiry
	}
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	s := &c.conn.state
	for i := range c.calls {
		call := &c.calls[i]
		at := slices.IndexFunc(s.lingering, func(l lingering) bool { return l.id == call.id })
		if at >= 0 && !call.cancelled {
			call.abandoned = true
		}
		lingers := at >= 0 && call.cancelled && !s.lingering[at].answered && time.Now().Before(s.lingering[at].until)
		if lingers && (expiry.IsZero() || s.lingering[at].until.Before(expiry)) {
			expiry = s.lingering[at].until
		}
		if lingers || call.abandoned && s.end == nil || s.calls[call.id] != nil {
			left = append(left, candidate{id: call.id, owner: call.owner})
		}
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return left, s.ended, expiry
}

// awaitEnd waits until a call ends, a time comes, or ctx ends.
func awaitEnd(ctx context.Context, ended <-chan struct{}, expiry time.Time) {
	var expired <-chan time.Time
	if !expiry.IsZero() {
		timer := time.NewTimer(time.Until(expiry))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ended:
	case <-expired:
	case <-ctx.Done():
	}
}

// tellEnded wakes the goroutines that wait for the end of a call.
func (s *state) tellEnded() {
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// candidates returns all calls that a message of the peer may belong to: first the recently
// cancelled calls, then the calls in flight, oldest first.
func (s *state) candidates(now time.Time) []candidate {
	s.lingering = expire(s.lingering, now)
	order := make([]int64, 0, len(s.calls))
	for id, p := range s.calls {
		if p.owner != nil {
			order = append(order, s.ids.nth(id))
		}
	}
	slices.Sort(order)
	all := make([]candidate, 0, len(s.lingering)+len(order))
	for _, l := range s.lingering {
		if !l.answered {
			all = append(all, candidate{id: l.id, owner: l.owner, cancelled: true})
		}
	}
	for _, nth := range order {
		id := s.ids.id(nth)
		all = append(all, candidate{id: id, owner: s.calls[id].owner})
	}
	return all
}

func ownersOf(calls []candidate) []any {
	owners := make([]any, len(calls))
	for i := range calls { // not a copy: left may be changing other fields
		owners[i] = calls[i].owner
	}
	return owners
}

// ownersOn returns a function that returns the owners of messages on a stream: the owner of the
// stream's call, or the owners of all calls if the stream serves several calls.
func (c *Conn) ownersOn(on Stream) func() []any {
	call, ok := on.(CallStream)
	if !ok {
		return c.mainOwnersFunc
	}
	return func() []any {
		if _, owner := call.Call(); owner != nil {
			return []any{owner}
		}
		return nil
	}
}

func (c *Conn) mainOwners() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ownersOf(c.state.candidates(time.Now()))
}
