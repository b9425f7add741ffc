package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

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

// handshake is the state of the handshake of a session.
type handshake int

const (
	handshakeNone        handshake = iota
	handshakeInitialized           // initialize was received
	handshakeDone                  // notifications/initialized was received
)

// initialize answers an initialize request.
func (s *Session) initialize(r *rpc.Request) {
	if bad := s.negotiate(r.Params); bad != nil {
		r.Reply(wire.Reply{Error: bad.Raw()})
		return
	}
	r.Start(beginSession)
}

// negotiate sets the revision of the session; see [protocol.Era.Negotiate].
func (s *Session) negotiate(params []byte) *wire.RPCError {
	version, ok := wire.GetString(params, "protocolVersion")
	if !ok {
		return wire.Errorf(wire.CodeInvalidParams, "initialize: params.protocolVersion must be a string")
	}
	if bad := envelope.CheckClient(params); bad != nil {
		return bad
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handshake != handshakeNone {
		return wire.Errorf(wire.CodeInvalidRequest, "invalid request: the session is initialized already")
	}
	s.handshake, s.params, s.begun = handshakeInitialized, bytes.Clone(params), true // the message may have more
	s.revision = protocol.Handshake.Negotiate(version)
	s.conn.SetBatches(s.revision.Has(protocol.Batches))
	return nil
}

// uninitialize lets the client try again after a failed initialize.
func (s *Session) uninitialize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshake, s.params, s.revision = handshakeNone, nil, protocol.Revision{}
	s.conn.SetBatches(false)
}

// initialized takes notifications/initialized.
func (s *Session) initialized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handshake == handshakeInitialized {
		s.handshake = handshakeDone
	}
}

// isInitialized reports whether initialize was received.
func (s *Session) isInitialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handshake != handshakeNone
}

// beginSession answers initialize when the backend knows the capabilities.
func beginSession(ctx context.Context, r *rpc.Request) wire.Reply {
	s := sessionOf(r)
	w, err := s.opts.Backend.BeginSession(ctx, s)
	if err != nil {
		s.uninitialize()
		var bad *wire.RPCError
		if errors.As(err, &bad) {
			return wire.Reply{Error: bad.Raw()}
		}
		return fail(wire.CodeInternal, "initialize: %v", err)
	}
	s.persist(ctx, r.Method)
	var server, result wire.Object
	server.Text("name", s.opts.Name)
	server.Text("version", s.opts.Version)
	result.Text("protocolVersion", s.Revision().String())
	result.Raw("capabilities", w.Capabilities)
	result.Raw("serverInfo", server.Bytes())
	result.NonEmpty("instructions", w.Instructions)
	result.Raw("_meta", w.Meta)
	return wire.Reply{Result: result.Bytes()}
}

func fail(code int, format string, args ...any) wire.Reply {
	return wire.Reply{Error: wire.Errorf(code, format, args...).Raw()}
}

// Ask implements route.Origin.
func (s *Session) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return s.callClient(ctx, rpc.Call{Call: call})
}

// callClient sends a request to the client and waits for the answer. A malformed answer
// becomes a JSON-RPC error.
func (s *Session) callClient(ctx context.Context, call rpc.Call) (wire.Reply, error) {
	reply, err := s.conn.Call(ctx, call)
	var malformed *malformedError
	switch {
	case err == nil:
		return reply, nil
	case errors.As(err, &malformed):
		return fail(wire.CodeInternal, "the client's answer is malformed: %v", malformed), nil
	case ctx.Err() == nil && s.conn.Err() != nil:
		return wire.Reply{}, wire.ErrClosed
	}
	return wire.Reply{}, err
}

// malformedError is the error for an unusable answer to a request.
type malformedError struct{ err error }

func (e *malformedError) Error() string {
	var bad *wire.RPCError
	if errors.As(e.err, &bad) {
		return bad.Message
	}
	return e.err.Error()
}

func (e *malformedError) Unwrap() error { return e.err }

// callErrors makes the errors of calls of the client.
type callErrors struct{}

// Down implements rpc.Errors.
func (callErrors) Down(reason string, cause error) error {
	return fmt.Errorf("client: %s: %w", reason, errors.Join(wire.ErrClosed, cause))
}

// Unsent implements rpc.Errors. A call of the client is never repeated.
func (callErrors) Unsent(err error) error { return err }

// Unusable implements rpc.Errors.
func (callErrors) Unusable(_ string, cause error) error { return &malformedError{cause} }

// Timeout implements rpc.Errors. Calls of the client have no time limit, so rpc never calls
// Timeout.
func (callErrors) Timeout(method string, after time.Duration, _ bool) error {
	return fmt.Errorf("client: no answer to %s within %v: %w", method, after, context.DeadlineExceeded)
}
