package stateless

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Exchange is a request and the requests that repeat the first one with answers of the client. It
// implements route.Origin for the call, and route.Responder: the reply answers the request that is
// open at the time of the reply.
//
// Invariants:
//
//  1. At most one request is open (at). Without an open request the call is parked: the exchange
//     has an id and a place in Principal.parked, and a timer ends the call.
//  2. Each question is in questions until the question is answered or withdrawn, or the call ends.
//  3. round counts the answers with questions. Only the state of the last round can be used, and
//     only once: while a request is open, and after the end, no state can be used.
//  4. The reply comes once (over). Without an open request, the reply is kept for the next request.
//  5. An exchange refers to no part of the body of an answered request. The memory of an exchange
//     from the first question to the end is in kept.
type Exchange struct {
	principal *Principal
	method    string
	progress  bool // the first request wants progress

	mu        sync.Mutex // guards the fields below; only Principal.mu and the budget are locked below mu
	params    []byte     // of the first request, without the envelope; nil after the end
	kept      *budget.Account
	at        *rpc.Request
	span      rpc.Span          // of at, or of the last request; nil for none
	sender    sender            // by at, or by the last request
	cancel    func(cause error) // cancels the call; nil while no call can be cancelled
	cause     error             // why the call was cancelled
	over      bool              // the reply has come
	reply     wire.Reply        // if over while no request was open
	id        string            // "" before the first question
	round     uint64
	asked     int // number of questions so far
	questions []*question
	gathering *time.Timer // until the questions are sent; nil if no question waits for more questions
	expiry    *time.Timer // while parked
}

// sender is the description of the sender in an envelope, without references to the request.
type sender struct {
	revision protocol.Revision
	client   []byte // see route.Origin.Client
	logLevel string
}

func senderOf(e envelope.Envelope) sender { return sender{e.Revision, e.Client(), e.LogLevel} }

// exchange makes the call of a request.
func (p *Principal) exchange(r *rpc.Request, e envelope.Envelope) {
	x := &Exchange{principal: p, method: r.Method, params: r.Params, progress: r.WantsProgress(), at: r, span: r.Span(), sender: senderOf(e)}
	p.open.Add(1)
	call := route.Call{Method: r.Method, Origin: x, Params: r.Params}
	if x.progress {
		call.Progress = x.report
	}
	r.OnCancel(func(cause error) { x.dropped(r, cause) })
	if p.submitter != nil {
		if cancel, ok := p.submitter.Submit(call, x); ok {
			x.onCancel(cancel)
			return
		}
	}
	x.Start(func(ctx context.Context) wire.Reply { return p.opts.Backend.Handle(ctx, call) })
}

// onCancel sets the function that cancels the call. If the call has been cancelled already, cancel
// is called.
func (x *Exchange) onCancel(cancel func(error)) {
	x.mu.Lock()
	x.cancel = cancel
	cause := x.cause
	x.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
}

// dropped is called after the client has cancelled a request. The cancellation of the open request
// cancels the call.
func (x *Exchange) dropped(r *rpc.Request, cause error) {
	x.abandonIf(cause, func() bool { return x.at == r })
}

// abandon cancels the call. No client gets the reply.
func (x *Exchange) abandon(cause error) { x.abandonIf(cause, func() bool { return true }) }

// abandonIf is abandon under a condition, which is checked while x.mu is held.
func (x *Exchange) abandonIf(cause error, condition func() bool) {
	x.mu.Lock()
	if !condition() {
		x.mu.Unlock()
		return
	}
	if x.cause == nil {
		x.cause = cause
	}
	cancel, over := x.cancel, x.over
	x.stop(&x.expiry)
	x.mu.Unlock()
	if over {
		x.principal.forget(x)
	} else if cancel != nil {
		cancel(cause)
	}
}

// Cancelled implements route.Responder.
func (x *Exchange) Cancelled() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cause != nil
}

// Start implements route.Responder.
func (x *Exchange) Start(work func(ctx context.Context) wire.Reply) {
	ctx, cancel := context.WithCancelCause(x.principal.ctx)
	x.onCancel(cancel)
	x.principal.open.Go(func() { // open is not 0 before the reply
		defer cancel(nil)
		reply := work(ctx)
		if reply.Result == nil && reply.Error == nil {
			reply = fail(wire.CodeInternal, "%s ended without an answer: %v", x.method, context.Cause(ctx))
		}
		x.Reply(reply)
	})
}

// Reply implements route.Responder.
func (x *Exchange) Reply(reply wire.Reply) {
	x.mu.Lock()
	if x.over {
		x.mu.Unlock()
		return
	}
	x.over = true
	r, parked := x.at, x.id != ""
	questions := x.questions
	x.questions, x.cancel = nil, nil
	x.stop(&x.gathering)
	keep := r == nil && x.cause == nil
	if keep {
		x.keep(reply)
	} else {
		x.at, x.params = nil, nil
		x.stop(&x.expiry)
	}
	x.mu.Unlock()
	for _, q := range questions {
		close(q.answer)
	}
	if parked && !keep {
		x.principal.forget(x)
	}
	if r != nil {
		r.Reply(x.complete(r, reply))
	}
	x.principal.open.Done()
}

// stop stops and clears a timer. The caller holds x.mu.
func (x *Exchange) stop(timer **time.Timer) {
	if *timer != nil && (*timer).Stop() {
		x.principal.timers.Done()
	}
	*timer = nil
}

// after returns a timer that calls f. f itself checks whether the call of f still makes sense. The
// caller holds x.mu.
func (x *Exchange) after(d time.Duration, f func()) *time.Timer {
	x.principal.timers.Add(1)
	return time.AfterFunc(d, func() {
		defer x.principal.timers.Done()
		f()
	})
}

// Session implements route.Origin.
func (x *Exchange) Session() route.Session { return x.principal }

// Revision implements route.Origin.
func (x *Exchange) Revision() protocol.Revision {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sender.revision
}

// Client implements route.Origin.
func (x *Exchange) Client() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sender.client
}

// LogLevel implements route.Origin.
func (x *Exchange) LogLevel() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sender.logLevel
}

// Span returns the span of the open request, or of the last request; may be nil.
func (x *Exchange) Span() rpc.Span {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.span
}

// Standing says whether the client can be asked something now; see route.Standing.
func (x *Exchange) Standing() route.Standing {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.over || x.cause != nil || !MayAsk(x.method):
		return route.Closed
	case x.at == nil && slices.ContainsFunc(x.questions, func(q *question) bool { return q.withdrawn() == nil }):
		return route.Parked
	}
	return route.Open // also if the server has withdrawn the questions, and continues
}

// Notify implements route.Origin. While the call is parked, the notification is lost.
func (x *Exchange) Notify(method string, params []byte) {
	x.mu.Lock()
	r, level := x.at, x.sender.logLevel
	x.mu.Unlock()
	if r == nil || !belongsToRequest(level, method, params) {
		return
	}
	if err := r.Notify(x.principal.ctx, method, params); err != nil {
		x.principal.opts.Log.Debug("notification to the client lost", "method", method, "err", err)
	}
}

// belongsToRequest reports whether a notification may be sent for a request: the revision has the
// notification, the notification is about no subscription, and a log message has a level that the
// request asks for.
func belongsToRequest(wanted, method string, params []byte) bool {
	switch method {
	case protocol.NotificationMessage:
		level, _ := wire.GetString(params, "level")
		least := slices.Index(envelope.LogLevels, wanted)
		return least >= 0 && slices.Index(envelope.LogLevels, level) >= least
	case protocol.NotificationProgress:
		return true
	}
	_, known := protocol.FindMethod(protocol.Server, method)
	return !known // of an extension
}

// report sends progress, if the open request wants progress.
func (x *Exchange) report(params []byte) {
	x.mu.Lock()
	r := x.at
	x.mu.Unlock()
	if r != nil && r.WantsProgress() {
		r.Progress(params)
	}
}

func fail(code int, format string, args ...any) wire.Reply {
	return wire.Reply{Error: wire.Errorf(code, format, args...).Raw()}
}

var (
	_ route.Responder = (*Exchange)(nil)
	_ route.Origin    = (*Exchange)(nil)
)

// complete returns the reply to a request with the additions of this era. Additions that the reply
// has already stay unchanged.
func (x *Exchange) complete(r *rpc.Request, reply wire.Reply) wire.Reply {
	if reply.Error != nil {
		x.noteLacked(r, reply)
		return reply
	}
	hints := x.principal.opts.Backend.Hints(route.Call{Method: x.method, Origin: x})
	if hints != nil {
		if kind, _ := envelope.ResultType(reply.Result); kind != envelope.TypeComplete {
			hints = nil
		}
	}
	result, err := x.principal.stamp.Complete(reply.Result, hints)
	if err != nil {
		return fail(wire.CodeInternal, "%s: the result is not an object: %v", x.method, err)
	}
	reply.Result = result
	return reply
}

// MethodStream is an rpc.Stream that tells the client whether this server has the method of the
// request (over HTTP, by the status).
type MethodStream interface {
	// LacksMethod tells the stream that this server does not have the method. LacksMethod is called
	// before the answer is sent.
	LacksMethod()
}

// noteLacked tells the stream of a request if this server does not have the method. An error with
// the same code of a server behind us is about the other server only, unless the method is unknown
// to us.
func (x *Exchange) noteLacked(r *rpc.Request, reply wire.Reply) {
	if wire.ParseError(reply.Error).Code != wire.CodeMethodNotFound {
		return
	}
	x.mu.Lock()
	_, known := x.sender.revision.Method(protocol.Client, x.method)
	x.mu.Unlock()
	if out, ok := r.Stream().(MethodStream); ok && (reply.Own || !known) {
		out.LacksMethod()
	}
}

// inputRequired returns a result with questions to the client.
func inputRequired(requests []byte, state string, serverInfo []byte) []byte {
	var meta wire.Object
	meta.Raw(envelope.KeyServerInfo, serverInfo)
	result := wire.NewObject(len(requests) + len(state) + len(serverInfo) + 150)
	result.Text("resultType", envelope.TypeInputRequired)
	result.Raw("inputRequests", requests)
	result.Text("requestState", state)
	result.Raw("_meta", meta.Bytes())
	return result.Bytes()
}

// Bounds of parked calls. Each parked call keeps a call of an upstream open, with the upstream
// call's resources.
const (
	maxParked    = 1024 // of all principals
	maxParkedFor = 256  // of a principal
	// parkedMemory is the approximate memory of a waiting call without the sent messages, in bytes.
	parkedMemory = 8 << 10
)

// errParking is the error at the limit on parked calls.
var errParking = errors.New("too many calls wait for answers of their clients (answer some of them, or wait until they expire)")

// Parking counts the parked calls of several principals. The zero value is empty.
type Parking struct {
	mu sync.Mutex
	n  int
}

// take takes a place, and returns false without a free place.
func (k *Parking) take() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n >= maxParked {
		return false
	}
	k.n++
	return true
}

func (k *Parking) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n--
}

// register gives an exchange an id and a place among the parked calls until the exchange's end,
// with the memory for the exchange, and for a question of size question. The caller holds x.mu.
func (p *Principal) register(x *Exchange, id string, question int) error {
	kept := p.opts.Budget.OpenKept(route.BudgetKey(p), "calls that wait for this client")
	if err := kept.Set(x.size() + int64(question)); err != nil {
		kept.Close()
		return noMemory(err)
	}
	p.mu.Lock()
	room := p.ctx.Err() == nil && len(p.parked) < maxParkedFor && p.opts.Parking.take()
	if room {
		p.parked[id] = x
		x.id, x.kept = id, kept
	}
	p.mu.Unlock()
	if !room {
		kept.Close()
		return errParking
	}
	return nil
}

// size returns how many bytes the exchange keeps. The caller holds x.mu.
func (x *Exchange) size() int64 {
	n := parkedMemory + budget.Copies*len(x.params) + len(x.sender.client) + len(x.reply.Result) + len(x.reply.Error)
	for _, q := range x.questions {
		n += len(q.request)
	}
	return int64(n)
}

// count counts the memory of the exchange again after a decrease. The caller holds x.mu.
func (x *Exchange) count() { _ = x.kept.Set(x.size()) }

// keep keeps a reply for the next request. keep copies the reply, because the server is charged for
// the reply's message as long as any reference remains. The caller holds x.mu.
func (x *Exchange) keep(reply wire.Reply) {
	x.params, x.questions = nil, nil
	x.count()
	if err := x.kept.Add(len(reply.Result) + len(reply.Error)); err != nil {
		reply = wire.Reply{Error: rpc.LostAnswer(err)}
	}
	reply.Result, reply.Error = bytes.Clone(reply.Result), bytes.Clone(reply.Error)
	x.reply = reply
}

// noMemory returns the error for a call without memory to wait for the client.
func noMemory(err error) error { return fmt.Errorf("the call cannot wait: %s", limits.Explain(err)) }

// forget gives the place of an exchange back.
func (p *Principal) forget(x *Exchange) {
	p.mu.Lock()
	kept := x.kept
	if x.id != "" && p.parked[x.id] == x {
		delete(p.parked, x.id)
		p.opts.Parking.leave()
	}
	p.mu.Unlock()
	kept.Close()
}

// find returns the exchange with an id.
func (p *Principal) find(id string) (*Exchange, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, ok := p.parked[id]
	return x, ok
}
