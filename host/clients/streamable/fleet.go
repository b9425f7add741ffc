package streamable

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/sessions"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Fleet is the part of the Handler's fleet that the Handler needs.
type Fleet struct {
	Sessions *sessions.Sessions
	// Self is the id of this replica.
	Self string
	// Replica returns the known facts about a replica, and Replicas about all known replicas.
	Replica  func(id string) fleet.Replica
	Replicas func() []fleet.Replica
	// Draining reports whether this replica drains.
	Draining func() bool
	// Forward passes a request on to another replica; see [peer.Link.Forward].
	Forward func(w http.ResponseWriter, r *http.Request, p peer.Passage) error
}

// Close saves the sessions for the other replicas, at most until ctx ends. The Handler must have
// been closed.
func (f *Fleet) Close(ctx context.Context) {
	if f != nil {
		f.Sessions.Close(ctx)
	}
}

// Bounds of waiting for the store of the fleet.
const (
	findTime = 2 * time.Second // to find or take over a session
	saveTime = time.Second     // to save or remove a session
	// findAttempts is the number of attempts to find a session during a handover.
	findAttempts = 5
)

// Refusals of requests of sessions that are not here.
var (
	storeAway   = refusal{http.StatusServiceUnavailable, protocol.CodeHTTPRefused, "the session is not in this replica, and the store of the fleet does not answer (try again)"}
	unreachable = refusal{http.StatusServiceUnavailable, protocol.CodeHTTPRefused, "the session is in another replica, which cannot be reached from here (try again; if this lasts, see whether the replicas reach each other)"}
	movedOn     = refusal{http.StatusMisdirectedRequest, protocol.CodeHTTPRefused, "the session is no longer in this replica"}
)

// visit is an HTTP request of a session that is not in this replica.
type visit struct {
	handler *Handler
	w       http.ResponseWriter
	r       *http.Request
	policy  *policy
	token   bearer.Digest
	id      string
	found   *sessions.Found // nil before the look-up in the store

	unreached string // the replica that was not reached in the last attempt
}

// elsewhere looks for a request's session in the fleet; nil if the client may use no session with
// the id in the fleet. The refusal says why the search failed.
func (h *Handler) elsewhere(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest) (*visit, *refusal) {
	v := &visit{handler: h, w: w, r: r, policy: p, token: token, id: r.Header.Get(sessionHeader)}
	if h.opts.Fleet == nil || !isSessionID(v.id) {
		return nil, &noSession
	}
	if _, passedOn := peer.From(r.Context()); passedOn {
		return nil, &movedOn
	}
	if v.owner() == "" {
		if bad := v.find(); bad != nil {
			return nil, bad
		}
	}
	return v, nil
}

// owner returns the id of the session's replica as far as known without the store, so that requests
// go through while the store is away; "" if the replica is unknown or absent.
func (v *visit) owner() string {
	f := v.handler.opts.Fleet
	if id := f.Sessions.Owner(v.id); id != "" {
		if id == f.Self || f.lost(id) {
			return ""
		}
		return id
	}
	return f.beganBy(v.id)
}

// The id of a session is random, and ends with a tag of the replica that began the session: the
// session may not be in the store, or other replicas may not know of the session.
const (
	randomSize    = 26 // of rand.Text
	tagSize       = 8
	sessionIDSize = randomSize + tagSize
)

// newSessionID returns the id of a new session. f may be nil.
func newSessionID(f *Fleet) string {
	if f == nil {
		return rand.Text()
	}
	return rand.Text() + replicaTag(f.Self)
}

// replicaTag returns the tag of a replica.
func replicaTag(id string) string {
	sum := sha256.Sum256([]byte("mcp-metatool replica " + id))
	return base32.StdEncoding.EncodeToString(sum[:])[:tagSize]
}

// beganBy returns the id of the replica that began a session, "" for this replica or an absent
// replica.
func (f *Fleet) beganBy(id string) string {
	for _, r := range f.Replicas() {
		if r.ID != f.Self && !r.Lost() && replicaTag(r.ID) == id[randomSize:] {
			return r.ID
		}
	}
	return ""
}

func (f *Fleet) lost(replica string) bool {
	r := f.Replica(replica)
	return r.Lost()
}

// isSessionID reports whether id has the form of a session's id. Other ids are not looked up.
func isSessionID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return len(id) == sessionIDSize
}

// session finds the session of a request in the fleet. If ok is false, the request has been
// answered. Otherwise the caller must call serving.Done and leave.
func (h *Handler) session(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest, body []byte) (s *session, ok bool) {
	s, bad := h.sessionOf(r, token)
	if bad != nil && bad != &noSession {
		h.refuse(w, nil, *bad)
		return nil, false
	}
	if s != nil {
		if h.enter(s) {
			return s, true
		}
		h.leave(s)
	}
	return h.enterElsewhere(w, r, p, token, nil, body)
}

// enterElsewhere is session for a request of a session not found here. v describes the visit; nil
// if no replica is known to have the session.
func (h *Handler) enterElsewhere(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest, v *visit, body []byte) (s *session, ok bool) {
	if v == nil {
		var bad *refusal
		if v, bad = h.elsewhere(w, r, p, token); bad != nil {
			h.refuse(w, nil, *bad)
			return nil, false
		}
	}
	s, answered := v.settle(body)
	switch {
	case answered:
		return nil, false
	case h.enter(s):
		return s, true
	}
	h.leave(s)
	h.refuse(w, nil, unreachable) // the session has moved on again, or has just ended
	return nil, false
}

// find looks up the session in the store. A client with another token than the session's token does
// not learn of the session.
func (v *visit) find() *refusal {
	ctx, cancel := context.WithTimeout(v.r.Context(), findTime)
	defer cancel()
	found, err := v.handler.opts.Fleet.Sessions.Find(ctx, v.id)
	switch {
	case errors.Is(err, sessions.ErrNoSession), err == nil && found.Token != v.token:
		return &noSession
	case err != nil:
		v.handler.log().Debug("a session cannot be looked for", "err", err)
		return &storeAway
	}
	v.found = found
	return nil
}

// settle passes the request on to the session's replica, or moves the session to this replica and
// returns the session; then the caller must call leave. answered means: the request is complete.
// body is the body of the request, or nil.
func (v *visit) settle(body []byte) (s *session, answered bool) {
	h := v.handler
	if v.found == nil {
		if owner := v.owner(); owner != "" && v.forward(owner, body) == answeredThere {
			return nil, true
		}
	}
	for range findAttempts {
		if s, ok := h.find(v.id, v.token); ok {
			return s, false
		}
		if v.found == nil {
			if bad := v.find(); bad != nil {
				h.refuse(v.w, nil, *bad)
				return nil, true
			}
		}
		if v.passOn(body) {
			return nil, true
		}
		if v.found == nil {
			continue
		}
		s, err := h.takeOver(v)
		switch {
		case err == nil:
			return s, false
		case errors.Is(err, errTaken):
			v.found = nil
			continue
		}
		h.refuse(v.w, nil, *v.failed(err))
		return nil, true
	}
	h.refuse(v.w, nil, unreachable)
	return nil, true
}

// passOn passes the request on to the session's replica according to the store, if the replica is
// there. passOn returns false if the session can be taken over, or must be found again.
func (v *visit) passOn(body []byte) (answered bool) {
	f := v.handler.opts.Fleet
	if v.found.Owner == "" || v.found.Owner == f.Self || v.found.Owner == v.unreached || f.lost(v.found.Owner) {
		return false
	}
	switch v.forward(v.found.Owner, body) {
	case answeredThere:
		return true
	case notThere:
		// The replica has handed over the session since then, or the session is just ending.
		before := v.found
		if v.find() != nil || v.found.Term != before.Term || v.found.Owner != before.Owner {
			v.found = nil
		}
	}
	return false
}

// failed returns the refusal after a failed takeover.
func (v *visit) failed(err error) *refusal {
	var over *quotaError
	switch {
	case errors.As(err, &over):
		return &refusal{http.StatusTooManyRequests, protocol.CodeHTTPRefused, err.Error()}
	case errors.Is(err, errFull), errors.Is(err, errClosing):
		return &refusal{http.StatusServiceUnavailable, protocol.CodeHTTPRefused, err.Error()}
	}
	v.handler.log().Warn("a session of another replica cannot be taken over", "session", v.id[:6], "err", err)
	return &storeAway
}

// outcome is the outcome of passing on a request.
type outcome int

const (
	answeredThere outcome = iota // the client has got an answer, or has gone
	notThere                     // the replica does not have the session
	notReached                   // the replica has got nothing
)

// forward passes the request on to a replica.
func (v *visit) forward(to string, body []byte) outcome {
	w := &movedWriter{ResponseWriter: v.w, header: http.Header{}}
	err := v.handler.opts.Fleet.Forward(w, v.r, peer.Passage{To: to, Token: v.token, Body: body})
	var lost *peer.Error
	switch {
	case w.moved:
		return notThere
	case errors.Is(err, peer.ErrUnreached):
		v.handler.log().Info("the replica of a session cannot be reached", "session", v.id[:6], "err", err)
		v.unreached = to
		return notReached
	case v.r.Context().Err() != nil || errors.Is(err, context.Canceled): // the client has gone
	case errors.As(err, &lost):
		v.handler.log().Warn("the replica of a session was lost while it answered", "session", v.id[:6], "err", err)
		v.answerLost(body, lost.Started)
	}
	return answeredThere
}

// errLostText tells a client the known facts about a request.
const errLostText = "the replica that worked on this request was lost before its answer: the request may have been carried out (the session goes on in another replica)"

// answerLost answers the client after the loss of the working replica. started means: the client
// has received the beginning of an event stream.
func (v *visit) answerLost(body []byte, started bool) {
	msg, err := wire.Parse(body)
	if err != nil || !msg.IsRequest() {
		if !started {
			v.handler.refuse(v.w, nil, unreachable)
		}
		return // the client's stream ends, and the client opens another stream
	}
	answer := wire.Response(msg.ID, wire.Reply{Error: wire.Errorf(wire.CodeInternal, "%s: %s", msg.Method, errLostText).Raw()})
	if !started {
		writeJSON(v.w, http.StatusOK, answer)
		return
	}
	sink := newEventSink(v.w)
	if sink.writeEvent(eventID{}, answer, false) == nil {
		_ = sink.flush() // fails only if the client has disconnected
	}
}

// movedWriter is the http.ResponseWriter for an answer of another replica. movedWriter withholds an
// answer from the client if the answer says that the session has moved on.
type movedWriter struct {
	http.ResponseWriter
	header http.Header
	moved  bool
}

// Header implements http.ResponseWriter.
func (m *movedWriter) Header() http.Header { return m.header }

// WriteHeader implements http.ResponseWriter.
func (m *movedWriter) WriteHeader(status int) {
	if m.moved = status == http.StatusMisdirectedRequest; m.moved {
		return
	}
	to := m.ResponseWriter.Header()
	for name, values := range m.header {
		to[name] = values
	}
	m.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (m *movedWriter) Write(b []byte) (int, error) {
	if m.moved {
		return len(b), nil
	}
	return m.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (m *movedWriter) FlushError() error {
	if m.moved {
		return nil
	}
	return http.NewResponseController(m.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (m *movedWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }
