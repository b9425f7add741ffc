package streamable

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := h.policy.Load() // once: a reload must not mix two policies
	token, ok := h.admits(w, r, p)
	if !ok {
		return
	}
	if stateless.EraOfHeader(r.Header) == stateless.StatelessHeader && r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.refuseUnread(w, r, refusal{http.StatusMethodNotAllowed, protocol.CodeHTTPRefused, "method not allowed in this revision"})
		return
	}
	if r.ContentLength != 0 && (r.Method == http.MethodGet || r.Method == http.MethodDelete) {
		h.refuseUnread(w, r, refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "a " + r.Method + " has no body"})
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, p, token)
	case http.MethodGet:
		h.get(w, r, p, token)
	case http.MethodDelete:
		h.delete(w, r, p, token)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		h.refuseUnread(w, r, refusal{http.StatusMethodNotAllowed, protocol.CodeHTTPRefused, "method not allowed"})
	}
}

// admits returns the token of the client of a request, or else refuses the request.
func (h *Handler) admits(w http.ResponseWriter, r *http.Request, p *policy) (token bearer.Digest, ok bool) {
	if c, passed := peer.From(r.Context()); passed { // the other replica has checked the rest
		if !p.accepts(c.Token) {
			h.refuseUnread(w, r, noToken)
			return token, false
		}
		return c.Token, true
	}
	if !p.AllowsHost(r) {
		h.log().Warn("request refused: unknown Host", "host", display.Excerpt(r.Host, maxQuoted))
		h.refuseUnread(w, r, refusal{http.StatusForbidden, protocol.CodeHTTPRefused, "host " + strconv.Quote(display.Clip(r.Host, maxQuoted)) + " is not allowed (add it to allowed_hosts)"})
		return token, false
	}
	ok, configured := p.AllowsOrigin(r)
	if !ok {
		h.log().Warn("request refused: unknown Origin", "origin", display.Excerpt(r.Header.Get("Origin"), maxQuoted))
		h.refuseUnread(w, r, refusal{http.StatusForbidden, protocol.CodeHTTPRefused, "this origin is not allowed (add it to allowed_origins)"})
		return token, false
	}
	if configured {
		allowCORS(w.Header(), r)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return token, false
		}
	}
	if token, ok = p.authenticate(r); !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mcp"`)
		h.refuseUnread(w, r, noToken)
	}
	return token, ok
}

// post answers a POST, with messages of the client. Requests with refusable headers are refused
// before the body is read.
func (h *Handler) post(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest) {
	switch {
	case !isJSON(r):
		h.refuseUnread(w, r, refusal{http.StatusUnsupportedMediaType, protocol.CodeHTTPRefused, "Content-Type must be application/json"})
		return
	case isCompressed(r):
		w.Header().Set("Accept-Encoding", "identity")
		h.refuseUnread(w, r, refusal{http.StatusUnsupportedMediaType, protocol.CodeHTTPRefused, "the body must not be compressed (Content-Encoding)"})
		return
	case !accepts(r, "application", "json") || !accepts(r, "text", "event-stream"):
		h.refuseUnread(w, r, refusal{http.StatusNotAcceptable, protocol.CodeHTTPRefused, "Accept must have application/json and text/event-stream"})
		return
	case isStateless(r):
		h.postStateless(w, r, p, token)
		return
	case len(r.Header[sessionHeader]) == 0:
		h.postWithoutSession(w, r, p, token)
		return
	}
	s, bad := h.sessionOf(r, token)
	var v *visit
	if bad == &noSession {
		v, bad = h.elsewhere(w, r, p, token)
	}
	if bad != nil {
		h.refuseUnread(w, r, *bad)
		return
	}
	var owner any = token
	if s != nil {
		defer h.leave(s)
		owner = route.BudgetKey(s.mcp)
	}
	b, bad := h.readBody(w, r, owner, h.opts.Session.MaxMessage)
	defer b.release()
	if bad != nil {
		h.refuseUnread(w, r, *bad)
		return
	}
	if s == nil || !h.enter(s) {
		if s, ok := h.enterElsewhere(w, r, p, token, v, b.raw); ok {
			defer h.leave(s)
			defer s.serving.Done()
			s.post(w, r, b.raw)
		}
		return
	}
	defer s.serving.Done()
	s.post(w, r, b.raw)
}

// postWithoutSession answers a POST without a session, which must be an initialize
// request.
func (h *Handler) postWithoutSession(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest) {
	b, bad := h.readBody(w, r, token, min(maxInitialize, h.opts.Session.MaxMessage))
	defer b.release()
	if bad != nil {
		h.refuseUnread(w, r, *bad)
		return
	}
	msg, err := wire.Parse(b.raw)
	switch {
	case err != nil:
		h.refuse(w, msg.ID, *malformed(err))
	case h.refusesEra(w, r, msg):
	case msg.Method != protocol.MethodInitialize || !msg.IsRequest():
		h.refuse(w, msg.ID, missingSession)
	default:
		h.initialize(w, r, p, token, msg, b.raw)
	}
}

// initialize begins a session, and ends the session again if the request fails.
func (h *Handler) initialize(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest, msg wire.Message, raw []byte) {
	s, err := h.admit(r.Context(), p, token, clientAddress(r.RemoteAddr))
	var over *quotaError
	switch {
	case errors.As(err, &over):
		h.refuse(w, msg.ID, refusal{http.StatusTooManyRequests, protocol.CodeHTTPRefused, err.Error()})
		return
	case err != nil:
		w.Header().Set("Retry-After", "1")
		h.refuse(w, msg.ID, refusal{http.StatusServiceUnavailable, protocol.CodeHTTPRefused, err.Error()})
		return
	}
	out := s.openStream(msg.ID)
	s.mcp.ReceiveMessage(msg, nil, raw, out)
	sent := s.answer(w, r, out)
	s.serving.Done()
	h.leave(s)
	switch {
	case !sent:
		s.mcp.End(clients.ErrClientGone) // the client does not know the id of the session
	case s.mcp.Revision().IsZero():
		s.mcp.End(errors.New("initialize failed"))
		<-s.ended
	}
}

// sessionOf finds the session named in r. The caller must call leave.
func (h *Handler) sessionOf(r *http.Request, token bearer.Digest) (*session, *refusal) {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		return nil, &missingSession
	}
	if stateless.EraOfHeader(r.Header) == stateless.UnknownHeader {
		return nil, unknownVersion(r)
	}
	_, passedOn := peer.From(r.Context())
	s, ok := h.find(id, token)
	if !ok && passedOn {
		h.awaitTaken(r.Context(), id)
		s, ok = h.find(id, token)
	}
	switch {
	case !ok:
		return nil, &noSession
	case passedOn && h.handOver(s):
		h.leave(s)
		return nil, &movedOn
	}
	return s, nil
}

// unknownVersion is the refusal of a request of the handshake era with a header that names no known
// revision, or several revisions.
func unknownVersion(r *http.Request) *refusal {
	version := strings.Join(r.Header[versionHeader], ", ")
	return &refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "unsupported MCP-Protocol-Version " +
		strconv.Quote(display.Clip(version, maxQuoted)) + " (supported: " + strings.Join(protocol.Handshake.Names(), ", ") + ")"}
}

// isHandshake reports whether a message does not count as use of the session.
func isHandshake(method string) bool {
	return method == protocol.MethodInitialize || method == protocol.NotificationInitialized || method == protocol.MethodPing
}

// post passes a message, or a batch of them, to the session and waits for the answer.
func (s *session) post(w http.ResponseWriter, r *http.Request, raw []byte) {
	var out *stream
	msg, err := wire.Parse(raw)
	if !isHandshake(msg.Method) {
		s.used.Store(true)
	}
	switch {
	case s.mcp.IsBatch(raw):
		out = s.openStream(nil)
		if !s.mcp.Receive(raw, out) {
			s.drop(out)
			out = nil
		}
	case err != nil:
		if !rpc.WantsAnswer(msg, err) { // raw may be a response: the call of the response fails
			s.mcp.ReceiveMessage(msg, err, raw, nil)
		}
		s.handler.refuse(w, msg.ID, *malformed(err))
		return
	case s.handler.refusesEra(w, r, msg):
		return
	case msg.IsRequest():
		out = s.openStream(msg.ID)
		s.mcp.ReceiveMessage(msg, nil, raw, out)
	default:
		s.mcp.ReceiveMessage(msg, nil, raw, nil)
	}
	if out == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.answer(w, r, out)
	s.touch()
}

// answer writes the messages of a stream to the client: as a JSON body if the response is the only
// message, else as an event stream, which begins early if the client gets an id for resuming the
// stream. answer returns false if the client has disconnected before the first byte.
func (s *session) answer(w http.ResponseWriter, r *http.Request, out *stream) bool {
	timer := s.handler.timers.Get().(*time.Timer)
	wait, prime := s.handler.opts.KeepAlive/2, s.primes(r)
	if prime && out.resumable() {
		wait = min(wait, s.handler.opts.PrimeAfter)
	}
	timer.Reset(wait)
	select {
	case <-out.wake:
	case <-timer.C:
	case <-r.Context().Done():
		if len(r.Header[sessionHeader]) == 0 { // the client does not know the session
			s.abandon(out)
		} else {
			s.outlast(out, out.cutOff(), true)
		}
		return false
	}
	timer.Stop()
	s.handler.timers.Put(timer)
	if len(r.Header[sessionHeader]) == 0 && !s.mcp.Revision().IsZero() {
		w.Header().Set(sessionHeader, s.id)
	}
	if msg, ok := out.onlyResponse(); ok && !prefersEvents(r) {
		defer s.drop(out)
		if len(msg) > maxWrite { // a small message fits in the kernel's buffers
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		}
		writeJSON(w, http.StatusOK, msg)
		return true
	}
	e := newEventWriter(w)
	if !out.attach(e, 0, true) { // cannot happen: the client does not know the stream yet
		s.abandon(out)
		return false
	}
	s.serve(r.Context(), e, prime)
	return true
}

// primes reports whether the client of r expects a priming event: by the revision in the header of
// r, or else by the session's revision.
func (s *session) primes(r *http.Request) bool {
	revision, ok := protocol.Handshake.Lookup(r.Header.Get(versionHeader))
	if !ok {
		revision = s.mcp.Revision()
	}
	return revision.Has(protocol.PrimingEvents)
}

// abandon cancels the requests of a stream, because the client has disconnected.
func (s *session) abandon(out *stream) {
	s.mcp.Abandon(out)
	s.drop(out)
}

// serve writes events until the stream is finished or the client disconnects. A client that
// disconnects has some time to resume an unfinished stream.
func (s *session) serve(ctx context.Context, e *eventWriter, prime bool) {
	out := e.stream
	err := e.begin(prime)
	if err == nil {
		err = e.run(ctx)
	}
	resumed := out.detach(e)
	if out.id == 0 {
		return
	}
	s.outlast(out, resumed, err != nil)
}

// outlast ends the use of the stream of a request. A disconnected client has some time to resume an
// unfinished stream, see stream.detach for resumed.
func (s *session) outlast(out *stream, resumed <-chan struct{}, disconnected bool) {
	if disconnected && !s.awaitResume(out, resumed) {
		s.abandon(out)
		return
	}
	switch {
	case !out.finished():
	case out.resumable():
		s.keep(out)
	default:
		s.drop(out)
	}
}

// awaitResume waits until a broken stream is resumed or finished. awaitResume returns false if the
// client does not resume the stream in time, or if the session ends.
func (s *session) awaitResume(out *stream, resumed <-chan struct{}) bool {
	timer := time.NewTimer(s.handler.opts.ResumeWindow)
	defer timer.Stop()
	defer out.signal() // the token may have been for the next connection
	for !out.finished() {
		select {
		case <-resumed:
			return true
		case <-out.wake:
		case <-timer.C:
			return false
		case <-s.mcp.Done():
			return false
		}
	}
	return true
}

// Headers of the transport.
const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	resumeHeader  = "Last-Event-Id"
)

// Values of Content-Type, shared by all answers.
var (
	jsonType        = []string{"application/json"}
	eventStreamType = []string{"text/event-stream"}
)

// refusal is an HTTP error status with a JSON-RPC error as the body.
type refusal struct {
	status int
	code   int // JSON-RPC
	text   string
}

// Refusals of requests without a session.
var (
	missingSession = refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "the Mcp-Session-Id header is missing (begin with initialize)"}
	noSession      = refusal{http.StatusNotFound, protocol.CodeSessionNotFound, "session not found (it has ended; begin a new one with initialize)"}
)

// noToken is the refusal of a request without an accepted token.
var noToken = refusal{http.StatusUnauthorized, protocol.CodeHTTPRefused, "a valid bearer token is required"}

// malformed is the refusal of a message refused by wire.Parse.
func malformed(err error) *refusal {
	r := refusal{http.StatusBadRequest, wire.CodeInvalidRequest, err.Error()}
	var bad *wire.RPCError
	if errors.As(err, &bad) {
		r.code, r.text = bad.Code, bad.Message
	}
	return &r
}

// refuse answers with a JSON-RPC error; id may be nil.
func (h *Handler) refuse(w http.ResponseWriter, id []byte, r refusal) {
	if r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, r.status, wire.Response(id, wire.Reply{Error: wire.Errorf(r.code, "%s", r.text).Raw()}))
}

// refuseUnread refuses a request with a partly read body, and closes the connection.
func (h *Handler) refuseUnread(w http.ResponseWriter, r *http.Request, bad refusal) {
	if r.ContentLength != 0 {
		// The server skips the rest of the body, but not for long.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyGrace))
		if r.ProtoMajor == 1 { // in HTTP/2 this would end other requests
			w.Header()["Connection"] = []string{"close"}
		}
	}
	h.refuse(w, nil, bad)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client has disconnected
}

// allowCORS lets the scripts of a web page use the endpoint.
func allowCORS(header http.Header, r *http.Request) {
	header.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	header.Set("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", sessionHeader)
	header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	header.Set("Access-Control-Allow-Headers", strings.Join(append(
		[]string{"Accept", "Authorization", "Content-Type", resumeHeader, versionHeader, sessionHeader, envelope.HeaderMethod, envelope.HeaderName},
		argumentHeaders(r)...), ", "))
	header.Set("Access-Control-Max-Age", "600")
}

// maxArgumentHeaders bounds the result of argumentHeaders.
const maxArgumentHeaders = 64

// argumentHeaders returns the headers for arguments of tools that the script of a web page asks
// for; the tool decides which headers exist.
func argumentHeaders(r *http.Request) []string {
	var all []string
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if strings.HasPrefix(name, envelope.HeaderParam) && !strings.ContainsAny(name, " \t") && len(all) < maxArgumentHeaders {
			all = append(all, name)
		}
	}
	return all
}

// accepts reports whether the client accepts a media type. A client without Accept
// header accepts all.
func accepts(r *http.Request, kind, subtype string) bool {
	values := r.Header["Accept"]
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			part, _, _ = strings.Cut(part, ";")
			k, s, _ := strings.Cut(strings.TrimSpace(part), "/")
			if (k == "*" || strings.EqualFold(k, kind)) && (s == "*" || strings.EqualFold(s, subtype)) {
				return true
			}
		}
	}
	return len(values) == 0
}

// prefersEvents reports whether the client names event streams before JSON. Clients with this order
// expect an event stream in any case.
func prefersEvents(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	events := strings.Index(accept, "text/event-stream")
	plain := strings.Index(accept, "application/json")
	return events >= 0 && (plain < 0 || events < plain)
}

// isJSON reports whether the body of r is declared as JSON.
func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// isCompressed reports whether the body of r is declared as compressed. Compressed bodies are
// refused: a few bytes could expand to any number.
func isCompressed(r *http.Request) bool {
	encoding := r.Header.Get("Content-Encoding")
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// maxQuoted bounds the part of a header that logs and errors quote, in bytes.
const maxQuoted = 64
