package front

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

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

// JSON-RPC error codes that the transport uses, as other servers do.
const (
	codeRefused   = -32000
	codeNoSession = -32001
)

// primeRevision is the first in which clients expect events without data.
const primeRevision = "2025-11-25"

// refusal is an HTTP answer that is an error.
type refusal struct {
	status int
	code   int // JSON-RPC
	text   string
}

// refuse answers with a JSON-RPC error; id may be nil.
func (h *HTTP) refuse(w http.ResponseWriter, id []byte, r refusal) {
	if r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, r.status, wire.Response(id, wire.Reply{Error: wire.Errorf(r.code, "%s", r.text).Raw()}))
}

// refuseUnread is refuse of a request whose body has not been read to its end, and
// will not be: its connection ends with it.
func (h *HTTP) refuseUnread(w http.ResponseWriter, r *http.Request, bad refusal) {
	if r.ContentLength != 0 {
		// What the client sends all the same is taken for a moment only.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyGrace))
		if r.ProtoMajor == 1 { // in HTTP/2 this would be the end of other requests
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
	_, _ = w.Write(body) // the client has gone otherwise
}

// ServeHTTP implements http.Handler.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := h.guard.Load() // once: a reload must not mix two policies
	if !g.host(r) {
		h.log().Warn("request refused: unknown Host", "host", clip(r.Host))
		h.refuseUnread(w, r, refusal{http.StatusForbidden, codeRefused, "host " + strconv.Quote(clip(r.Host)) + " is not allowed (add it to allowed_hosts)"})
		return
	}
	ok, listed := g.origin(r)
	if !ok {
		h.log().Warn("request refused: unknown Origin", "origin", clip(r.Header.Get("Origin")))
		h.refuseUnread(w, r, refusal{http.StatusForbidden, codeRefused, "this origin is not allowed (add it to allowed_origins)"})
		return
	}
	if listed {
		share(w.Header(), r.Header.Get("Origin"))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	token, ok := g.token(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mcp"`)
		h.refuseUnread(w, r, refusal{http.StatusUnauthorized, codeRefused, "a valid bearer token is required"})
		return
	}
	if r.ContentLength != 0 && (r.Method == http.MethodGet || r.Method == http.MethodDelete) {
		h.refuseUnread(w, r, refusal{http.StatusBadRequest, codeRefused, "a " + r.Method + " has no body"})
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, g, token)
	case http.MethodGet:
		h.get(w, r, token)
	case http.MethodDelete:
		h.delete(w, r, token)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		h.refuseUnread(w, r, refusal{http.StatusMethodNotAllowed, codeRefused, "method not allowed"})
	}
}

// share lets the scripts of a web page use the endpoint (CORS).
func share(header http.Header, origin string) {
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", sessionHeader)
	header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	header.Set("Access-Control-Allow-Headers", strings.Join(
		[]string{"Accept", "Authorization", "Content-Type", resumeHeader, versionHeader, sessionHeader}, ", "))
	header.Set("Access-Control-Max-Age", "600")
}

// post takes messages of the client. What can be refused without the body is
// refused before it is read.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, g *guard, token digest) {
	switch {
	case !isJSON(r):
		h.refuseUnread(w, r, refusal{http.StatusUnsupportedMediaType, codeRefused, "Content-Type must be application/json"})
		return
	case !isPlain(r):
		w.Header().Set("Accept-Encoding", "identity")
		h.refuseUnread(w, r, refusal{http.StatusUnsupportedMediaType, codeRefused, "the body must not be compressed (Content-Encoding)"})
		return
	case !accepts(r, "application", "json") || !accepts(r, "text", "event-stream"):
		h.refuseUnread(w, r, refusal{http.StatusNotAcceptable, codeRefused, "Accept must have application/json and text/event-stream"})
		return
	case len(r.Header[sessionHeader]) == 0:
		h.postEarly(w, r, g, token)
		return
	}
	v, bad := h.visitOf(r, token)
	if bad != nil {
		h.refuseUnread(w, r, *bad)
		return
	}
	defer h.leave(v)
	b, bad := h.readBody(w, r, v.session, h.opts.Session.MaxMessage)
	defer b.release()
	switch {
	case bad != nil:
		h.refuseUnread(w, r, *bad)
	case !h.enter(v):
		h.refuse(w, nil, noSession)
	default:
		defer v.inside.Done()
		v.post(w, r, b.raw)
	}
}

// postEarly takes the message of a client without a session, who can only begin
// one.
func (h *HTTP) postEarly(w http.ResponseWriter, r *http.Request, g *guard, token digest) {
	b, bad := h.readBody(w, r, token, min(earlyBody, h.opts.Session.MaxMessage))
	defer b.release()
	if bad != nil {
		h.refuseUnread(w, r, *bad)
		return
	}
	msg, err := wire.Parse(b.raw)
	switch {
	case err != nil:
		h.refuse(w, msg.ID, *malformed(err))
	case msg.Method != string(mcp.MethodInitialize) || !msg.IsRequest():
		h.refuse(w, msg.ID, missingSession)
	default:
		h.initialize(w, r, g, token, msg)
	}
}

// isHandshake tells whether a message says no more than that its client is there.
func isHandshake(method string) bool {
	return method == string(mcp.MethodInitialize) || method == string(mcp.MethodPing) || method == "notifications/initialized"
}

// post takes a message to the session, or a batch of them, and brings the answer.
func (v *visit) post(w http.ResponseWriter, r *http.Request, raw []byte) {
	var out *stream
	msg, err := wire.Parse(raw)
	if !isHandshake(msg.Method) {
		v.used.Store(true)
	}
	switch {
	case v.session.takesBatch(raw):
		out = v.open()
		if !v.session.Receive(raw, out) {
			v.drop(out)
			out = nil
		}
	case err != nil:
		if !wantsAnswer(msg, err) {
			v.session.receive(msg, err, nil, nil) // whoever waits for this answer must know
		}
		v.http.refuse(w, msg.ID, *malformed(err))
		return
	case msg.IsRequest():
		out = v.open()
		v.session.receive(msg, nil, out, nil)
	default:
		v.session.receive(msg, nil, nil, nil)
	}
	if out == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	v.answer(w, r, out)
}

func malformed(err error) *refusal {
	r := refusal{http.StatusBadRequest, wire.CodeInvalidRequest, err.Error()}
	var bad *wire.RPCError
	if errors.As(err, &bad) {
		r.code, r.text = bad.Code, bad.Message
	}
	return &r
}

// initialize begins a session. It lasts if it is initialized in the end.
func (h *HTTP) initialize(w http.ResponseWriter, r *http.Request, g *guard, token digest, msg wire.Message) {
	v, err := h.admit(r.Context(), g, token, addressOf(r.RemoteAddr))
	var over *quotaError
	switch {
	case errors.As(err, &over):
		h.refuse(w, msg.ID, refusal{http.StatusTooManyRequests, codeRefused, err.Error()})
		return
	case err != nil:
		h.refuse(w, msg.ID, refusal{http.StatusServiceUnavailable, codeRefused, err.Error()})
		return
	}
	out := v.open()
	v.session.receive(msg, nil, out, nil)
	heard := v.answer(w, r, out)
	v.inside.Done()
	h.leave(v)
	switch {
	case !heard:
		v.session.End(errGone) // the client does not know its session
	case v.session.Revision() == "":
		v.session.End(errors.New("initialize failed"))
		<-v.gone
	}
}

// Refusals of whoever has no session.
var (
	missingSession = refusal{http.StatusBadRequest, codeRefused, "the Mcp-Session-Id header is missing (begin with initialize)"}
	noSession      = refusal{http.StatusNotFound, codeNoSession, "session not found (it has ended; begin a new one with initialize)"}
)

// visitOf finds the session that r names; leave must follow.
func (h *HTTP) visitOf(r *http.Request, token digest) (*visit, *refusal) {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		return nil, &missingSession
	}
	if version := r.Header.Get(versionHeader); version != "" && !slices.Contains(Revisions, version) {
		return nil, &refusal{http.StatusBadRequest, codeRefused,
			"unsupported MCP-Protocol-Version " + strconv.Quote(clip(version)) + " (supported: " + strings.Join(Revisions, ", ") + ")"}
	}
	v, ok := h.find(id, token)
	if !ok {
		return nil, &noSession
	}
	return v, nil
}

// answer takes what is on out to the client: a JSON body where that is only
// the response, else an event stream. It is false when the client went away
// before anything was sent.
func (v *visit) answer(w http.ResponseWriter, r *http.Request, out *stream) bool {
	timer := v.http.timers.Get().(*time.Timer)
	timer.Reset(v.http.opts.KeepAlive / 2)
	select {
	case <-out.wake:
	case <-timer.C:
	case <-r.Context().Done():
		v.forsake(out)
		return false
	}
	timer.Stop()
	v.http.timers.Put(timer)
	if len(r.Header[sessionHeader]) == 0 && v.session.Revision() != "" {
		w.Header().Set(sessionHeader, v.id)
	}
	if msg, ok := out.answer(); ok && !prefersEvents(r) {
		v.drop(out)
		if len(msg) > maxWrite { // a small one goes into the kernel's buffers
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeStall))
		}
		writeJSON(w, http.StatusOK, msg)
		return true
	}
	c := newConn(w)
	if !out.attach(c, 0, true) { // cannot be: nobody knows of it yet
		v.forsake(out)
		return false
	}
	v.serve(r.Context(), c, v.primes(r))
	return true
}

// primes tells whether the client of r expects events without data: by the
// revision that the request says it is made in, if it does.
func (v *visit) primes(r *http.Request) bool {
	return cmp.Or(r.Header.Get(versionHeader), v.session.Revision()) >= primeRevision
}

// forsake cancels what belongs to a stream whose client has gone.
func (v *visit) forsake(s *stream) {
	v.session.Abandon(s)
	v.drop(s)
}

// serve runs c to its end. A client that goes away has some time to come back
// to a stream that is not over.
func (v *visit) serve(ctx context.Context, c *conn, prime bool) {
	s := c.stream
	err := c.begin(prime)
	if err == nil {
		err = c.run(ctx)
	}
	resumed := s.detach(c)
	if s.no == 0 {
		return
	}
	if err != nil && !v.awaits(s, resumed) {
		v.forsake(s)
		return
	}
	if s.over() {
		v.finish(s)
	}
}

// finish keeps a stream that is over for a client that may have lost the end
// of it, if it can come back.
func (v *visit) finish(s *stream) {
	if s.lasting() {
		v.keep(s)
	} else {
		v.drop(s)
	}
}

// awaits waits until a broken stream is resumed or over; false when its client
// does not come back.
func (v *visit) awaits(s *stream, resumed <-chan struct{}) bool {
	timer := time.NewTimer(v.http.opts.ResumeWindow)
	defer timer.Stop()
	defer s.signal() // the token may have been another's
	for !s.over() {
		select {
		case <-resumed:
			return true
		case <-s.wake:
		case <-timer.C:
			return false
		case <-v.session.Done():
			return false
		}
	}
	return true
}
