package stateless

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
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
	said      said              // by at, or by the last request
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

// said is the content of an envelope, without references to the request.
type said struct {
	revision protocol.Revision
	client   []byte // see route.Origin.Client
	logLevel string
}

func saidBy(e envelope.Envelope) said { return said{e.Revision, e.Client(), e.LogLevel} }

// exchange makes the call of a request.
func (p *Principal) exchange(r *rpc.Request, e envelope.Envelope) {
	x := &Exchange{principal: p, method: r.Method, params: r.Params, progress: r.WantsProgress(), at: r, span: r.Span(), said: saidBy(e)}
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
	return x.said.revision
}

// Client implements route.Origin.
func (x *Exchange) Client() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.said.client
}

// LogLevel implements route.Origin.
func (x *Exchange) LogLevel() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.said.logLevel
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
	r, level := x.at, x.said.logLevel
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
