package streamable

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/sessions"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store"
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
// returns the session; then the caller must call leave. answered means that the request is complete.
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

// answerLost answers the client after the loss of the working replica. started means that the client
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

// Causes of the end of sessions that continue elsewhere, or were not begun.
var (
	errMoved = errors.New("the session goes on in another replica")
	errTaken = errors.New("another request or replica has taken the session over")
)

// persist is front.Options.Persist.
func (s *session) persist(ctx context.Context) {
	if s.held == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	err := s.held.Save(ctx)
	if err != nil && !s.held.Saved() {
		s.log().Warn("the session cannot go on in another replica until the store of the fleet answers", "err", err)
	}
}

// touch has the session saved in the background if a request has changed the session.
func (s *session) touch() {
	if s.held != nil {
		s.held.Touch()
	}
}

// takeOver moves a session of another replica to this replica. The caller must call leave. The
// error is errTaken if another replica was faster.
func (h *Handler) takeOver(v *visit) (*session, error) {
	release, err := h.lockTaking(v.r.Context(), v.id)
	if err != nil {
		return nil, err
	}
	defer release()
	if s, ok := h.find(v.id, v.token); ok { // another request was faster
		return s, nil
	}
	s, err := h.reserve(v.policy, v.id, v.token, clientAddress(v.r.RemoteAddr))
	if err != nil {
		return nil, err
	}
	err = s.restore(v)
	h.mu.Lock()
	if err == nil && (h.closed || h.ctx.Err() != nil || !h.policy.Load().accepts(v.token)) {
		err = errClosing
	}
	if err == nil {
		h.sessions[s.id] = s
	}
	h.mu.Unlock()
	if err != nil {
		s.mcp.End(err)
		s.giveBack()
	}
	s.serving.Done()
	close(s.begun)
	if err != nil {
		h.leave(s)
		<-s.ended
		return nil, err
	}
	s.log().Info("a session of another replica goes on here", "from", v.found.Owner)
	return s, nil
}

// giveBack lets other replicas take a session that this replica has taken, but cannot continue.
func (s *session) giveBack() {
	held := s.held
	if s.held = nil; held == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	if err := held.Release(ctx); err != nil {
		s.log().Warn("a session is not given back", "err", err)
	}
}

// lockTaking lets only one request at a time take over a session.
func (h *Handler) lockTaking(ctx context.Context, id string) (release func(), err error) {
	for {
		h.mu.Lock()
		other := h.taking[id]
		if other == nil {
			mine := make(chan struct{})
			h.taking[id] = mine
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				delete(h.taking, id)
				close(mine)
			}, nil
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// awaitTaken waits until no request takes over a session.
func (h *Handler) awaitTaken(ctx context.Context, id string) {
	h.mu.Lock()
	taking := h.taking[id]
	h.mu.Unlock()
	if taking != nil {
		select {
		case <-taking:
		case <-ctx.Done():
		}
	}
}

// restore takes the session in the store, and continues the session.
func (s *session) restore(v *visit) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), findTime)
	defer cancel()
	held, calls, err := s.handler.opts.Fleet.Sessions.Take(ctx, v.found, s.mcp.Keep)
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict), errors.Is(err, sessions.ErrLost):
		return errTaken
	case err != nil:
		return err
	}
	s.held = held
	s.term = held.Term()
	s.used.Store(true)
	return s.mcp.Restore(v.found.State, calls)
}

// reserve makes a session that find does not find yet, within the limits on the number of sessions.
// The rate of new sessions does not count: all sessions of a lost replica may come at once.
func (h *Handler) reserve(p *policy, id string, token bearer.Digest, address netip.Prefix) (*session, error) {
	for {
		s, victim, err := h.begin(p, token, address, id)
		if victim == nil {
			return s, err
		}
		victim.mcp.End(errUnused)
		<-victim.ended // takes at most a second
	}
}

// awaitEnd waits until the session has ended, or has moved to another replica and no part of the
// session is in progress here.
func (s *session) awaitEnd() {
	if s.held == nil {
		<-s.mcp.Done()
		return
	}
	select {
	case <-s.mcp.Done():
		return
	case <-s.held.Lost():
	}
	s.handler.remove(s)
	s.main.Finish(rpc.Frame{}) // the client opens the stream again, at the other replica
	served := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(served)
	}()
	select {
	case <-served:
		s.mcp.End(errMoved)
	case <-s.mcp.Done():
	}
}

// settle tells the fleet that the session has ended, or can continue elsewhere.
func (s *session) settle() {
	if s.held == nil {
		return
	}
	if s.handler.ctx.Err() != nil && !errors.Is(s.mcp.Err(), errDeleted) {
		s.held.Leave() // Sessions.Close saves the session
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	s.held.Remove(ctx)
}

// handOver gives a session to the other replicas, if this replica drains and has no request of the
// session in progress. Otherwise handOver returns false.
func (h *Handler) handOver(s *session) bool {
	if s.held == nil || !h.opts.Fleet.Draining() {
		return false
	}
	h.mu.Lock()
	busy := h.sessions[s.id] != s || s.busy()
	if !busy {
		delete(h.sessions, s.id)
	}
	h.mu.Unlock()
	if busy {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	if err := s.held.Release(ctx); err != nil {
		s.log().Info("a session cannot be handed over yet", "err", err)
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.mcp.Err() == nil && !h.closed {
			h.sessions[s.id] = s
		}
		return false
	}
	s.log().Info("a session was handed over, since this replica drains")
	return true
}

// busy reports whether a request of the client is in progress, or the client has not received the
// answer. The caller holds Handler.mu.
func (s *session) busy() bool {
	for _, out := range s.allStreams() {
		if out.id == 0 {
			continue
		}
		if _, unsent := out.size(); unsent || !out.finished() {
			return true
		}
	}
	return false
}

// Replicas are the other replicas of a fleet.
type Replicas interface {
	// Home returns the replica that has the object of a request of the stateless era; "" if this
	// replica answers the request. Home does not wait.
	Home(principal, method string, params []byte) string
	// Forward passes a request on; see peer.Link.Forward.
	Forward(w http.ResponseWriter, r *http.Request, p peer.Passage) error
}

// passOn passes a request on to the replica that has the request's object. passOn returns false
// without such a replica, or if the request never reached the replica: then this replica answers as
// well as possible. A request is passed on only once.
func (h *Handler) passOn(w http.ResponseWriter, r *http.Request, p *principal, msg wire.Message, body []byte) bool {
	if h.opts.Replicas == nil {
		return false
	}
	if _, passed := peer.From(r.Context()); passed {
		return false
	}
	to := h.opts.Replicas.Home(p.mcp.Principal(), msg.Method, msg.Params)
	if to == "" {
		return false
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(errClosing) })()
	err := h.opts.Replicas.Forward(w, r.WithContext(ctx), peer.Passage{To: to, Token: p.token, Body: body})
	var bad *peer.Error
	switch {
	case r.Context().Err() != nil: // the client has gone
	case errors.Is(err, peer.ErrUnreached):
		h.log().Debug("a request could not be passed on", "method", msg.Method, "err", err)
		return false
	case errors.As(err, &bad) && !bad.Started && msg.Method == protocol.MethodTasksGet: // which changes nothing
		return false
	case errors.As(err, &bad):
		h.log().Warn("a request that was passed on got no answer", "method", msg.Method, "err", err)
		reply := wire.Response(msg.ID, wire.Reply{Error: wire.Errorf(wire.CodeInternal,
			"%s: the connection to replica %s, which has the object of this request, was lost: the request may have been carried out", msg.Method, to).Raw()})
		if bad.Started {
			_ = newEventSink(w).writeEvent(eventID{}, reply, false)
		} else {
			writeJSON(w, http.StatusOK, reply)
		}
	}
	return true
}
