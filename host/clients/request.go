package clients

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// ErrClientGone is the cause of the cancellation of requests after their client has
// disconnected.
var ErrClientGone = fmt.Errorf("the client has gone away: %w", wire.ErrClosed)

// handler is the Session in the role of rpc.Handler for the connection.
type handler Session

// Request implements rpc.Handler.
func (h *handler) Request(r *rpc.Request) {
	s := (*Session)(h)
	switch {
	case stateless.IsStateless(wire.Message{ID: r.ID, Method: r.Method, Params: r.Params}):
		s.stateless(r)
	case r.Method == protocol.MethodInitialize:
		s.trace(r)
		s.initialize(r)
	case !s.isInitialized():
		r.Reply(fail(wire.CodeInvalidRequest, "invalid request: %s before initialize", r.Method))
	default:
		s.trace(r)
		s.noteListed(r.Method)
		if !s.submit((*request)(r)) {
			r.Start(handle)
		}
	}
}

// stateless answers a request of the stateless era.
func (s *Session) stateless(r *rpc.Request) {
	if s.principal == nil || r.InBatch() {
		r.Reply(fail(wire.CodeInvalidRequest, "invalid request: a request of this revision must not come in a session of an earlier one"))
		return
	}
	e, bad := stateless.Check(nil, wire.Message{ID: r.ID, Method: r.Method, Params: r.Params})
	if bad != nil {
		r.Reply(wire.Reply{Error: bad.Raw()})
		return
	}
	params, err := envelope.Remove(r.Params)
	if err != nil {
		r.Reply(fail(wire.CodeInvalidParams, "%s: params: %v", r.Method, err))
		return
	}
	r.Params = params
	s.principal.Serve(r, e)
}

// Notification implements rpc.Handler.
func (h *handler) Notification(m wire.Inbound) {
	s := (*Session)(h)
	if envelope.IsPresent(m.Params) {
		return // in the stateless era clients send only notifications about a single request
	}
	if m.Method == protocol.NotificationInitialized {
		s.initialized()
		return
	}
	s.opts.Backend.Notified(s, m.Method, m.Params)
}

// trace begins the span of a request.
func (s *Session) trace(r *rpc.Request) {
	if s.opts.Tracer != nil {
		r.Observe(s.opts.Tracer.BeginRequest((*request)(r), r.Method, r.ID, r.Params))
	}
}

// submit passes a request to the backend if the backend can answer without a waiting goroutine, and
// returns false otherwise.
func (s *Session) submit(r *request) bool {
	if s.submitter == nil {
		return false
	}
	cancel, ok := s.submitter.Submit(r.call(), r)
	if ok {
		r.rpc().OnCancel(cancel)
	}
	return ok
}

// handle lets the backend answer a request.
func handle(ctx context.Context, r *rpc.Request) wire.Reply {
	s := sessionOf(r)
	reply := s.opts.Backend.Handle(ctx, (*request)(r).call())
	if reply.Error == nil {
		s.persist(ctx, r.Method)
	}
	return reply
}

func sessionOf(r *rpc.Request) *Session { return (*Session)(r.Handler().(*handler)) }

// request is a request of the client in flight. It implements route.Origin, and
// route.Responder for a request that was submitted to the backend.
type request rpc.Request

func (r *request) rpc() *rpc.Request { return (*rpc.Request)(r) }

func (r *request) session() *Session { return sessionOf(r.rpc()) }

// call returns the request in the form for the backend.
func (r *request) call() route.Call {
	call := route.Call{Method: r.Method, Origin: r, Params: r.Params}
	if r.rpc().WantsProgress() {
		call.Progress = r.rpc().Progress
	}
	return call
}

// Session implements route.Origin.
func (r *request) Session() route.Session { return r.session() }

// Revision implements route.Origin.
func (r *request) Revision() protocol.Revision { return r.session().Revision() }

// Client implements route.Origin.
func (r *request) Client() []byte { return r.session().Client() }

// LogLevel implements route.Origin.
func (r *request) LogLevel() string { return "" }

// Span returns the span of the request, or nil.
func (r *request) Span() rpc.Span { return r.rpc().Span() }

// Notify implements route.Origin.
func (r *request) Notify(method string, params []byte) {
	s := r.session()
	s.logLost(r.rpc().Notify(s.conn.Context(), method, params))
}

// Ask implements route.Origin.
func (r *request) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	call.Owner = r // telemetry finds the span
	return r.session().callClient(ctx, rpc.Call{Call: call, Stream: r.rpc().Stream()})
}

// Cancelled implements route.Responder.
func (r *request) Cancelled() bool { return r.rpc().Cancelled() }

// Reply implements route.Responder.
func (r *request) Reply(reply wire.Reply) { r.rpc().Reply(reply) }

// Start implements route.Responder.
func (r *request) Start(work func(ctx context.Context) wire.Reply) {
	r.rpc().Start(func(ctx context.Context, _ *rpc.Request) wire.Reply { return work(ctx) })
}

var _ route.Responder = (*request)(nil)
