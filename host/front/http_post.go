package front

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	writeJSON(w, r.status, wire.Response(id, wire.Reply{Error: wire.Errorf(r.code, "%s", r.text).Raw()}))
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
		h.log().Warn("request refused: unknown Host", "host", r.Host)
		h.refuse(w, nil, refusal{http.StatusForbidden, codeRefused, "host " + strconv.Quote(r.Host) + " is not allowed (add it to allowed_hosts)"})
		return
	}
	ok, listed := g.origin(r)
	if !ok {
		h.log().Warn("request refused: unknown Origin", "origin", r.Header.Get("Origin"))
		h.refuse(w, nil, refusal{http.StatusForbidden, codeRefused, "this origin is not allowed (add it to allowed_origins)"})
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
		h.refuse(w, nil, refusal{http.StatusUnauthorized, codeRefused, "a valid bearer token is required"})
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, token)
	case http.MethodGet:
		h.get(w, r, token)
	case http.MethodDelete:
		h.delete(w, r, token)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		h.refuse(w, nil, refusal{http.StatusMethodNotAllowed, codeRefused, "method not allowed"})
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

// post takes messages of the client.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, token digest) {
	if !isJSON(r) {
		h.refuse(w, nil, refusal{http.StatusUnsupportedMediaType, codeRefused, "Content-Type must be application/json"})
		return
	}
	if !accepts(r, "application", "json") || !accepts(r, "text", "event-stream") {
		h.refuse(w, nil, refusal{http.StatusNotAcceptable, codeRefused, "Accept must have application/json and text/event-stream"})
		return
	}
	raw, bad := h.body(w, r)
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	msg, err := wire.Parse(raw)
	if len(r.Header[sessionHeader]) == 0 && err == nil && msg.Method == string(mcp.MethodInitialize) && msg.IsRequest() {
		h.initialize(w, r, token, msg)
		return
	}
	v, bad := h.visitOf(r, token)
	if bad != nil {
		if len(r.Header[sessionHeader]) == 0 && err != nil {
			bad = malformed(err)
		}
		h.refuse(w, msg.ID, *bad)
		return
	}
	defer h.leave(v)
	var out *stream
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
		h.refuse(w, msg.ID, *malformed(err))
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
func (h *HTTP) initialize(w http.ResponseWriter, r *http.Request, token digest, msg wire.Message) {
	v, err := h.admit(token)
	if err != nil {
		w.Header().Set("Retry-After", "5")
		h.refuse(w, msg.ID, refusal{http.StatusServiceUnavailable, codeRefused, err.Error()})
		return
	}
	out := v.open()
	v.session.receive(msg, nil, out, nil)
	heard := v.answer(w, r, out)
	h.leave(v)
	switch {
	case !heard:
		v.session.End(errGone) // the client does not know its session
	case v.session.Revision() == "":
		v.session.End(errors.New("initialize failed"))
		<-v.gone
	}
}

// body reads the body of r. The caller owns it.
func (h *HTTP) body(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	limit := int64(h.opts.Session.MaxMessage)
	large := &wire.TooLargeError{Limit: int(limit)}
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "invalid request: " + large.Error()}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readStall)) // not every http.ResponseWriter has one
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	var buf bytes.Buffer
	if n := r.ContentLength; n > 0 {
		buf.Grow(int(min(n, 1<<20)) + bytes.MinRead) // the client may not keep its promise
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, wire.CodeParse, "the request's body could not be read: " + err.Error()}
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

// visitOf finds the session that r names; leave must follow.
func (h *HTTP) visitOf(r *http.Request, token digest) (*visit, *refusal) {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		return nil, &refusal{http.StatusBadRequest, codeRefused, "the Mcp-Session-Id header is missing (begin with initialize)"}
	}
	if version := r.Header.Get(versionHeader); version != "" && !slices.Contains(Revisions, version) {
		return nil, &refusal{http.StatusBadRequest, codeRefused,
			"unsupported MCP-Protocol-Version " + strconv.Quote(version) + " (supported: " + strings.Join(Revisions, ", ") + ")"}
	}
	v, ok := h.enter(id, token)
	if !ok {
		return nil, &refusal{http.StatusNotFound, codeNoSession, "session not found (it has ended; begin a new one with initialize)"}
	}
	return v, nil
}

var timers = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

// answer takes what is on out to the client: a JSON body where that is only
// the response, else an event stream. It is false when the client went away
// before anything was sent.
func (v *visit) answer(w http.ResponseWriter, r *http.Request, out *stream) bool {
	timer := timers.Get().(*time.Timer)
	timer.Reset(v.http.opts.KeepAlive / 2)
	select {
	case <-out.wake:
	case <-timer.C:
	case <-r.Context().Done():
		v.forsake(out)
		return false
	}
	timer.Stop()
	timers.Put(timer)
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
