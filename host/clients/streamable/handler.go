// Package streamable is the front end for MCP's streamable HTTP transport (revisions 2025-03-26 to
// 2025-11-25, basic/transports), and for requests of the stateless era over HTTP. Begin with
// Handler.
//
// A session has a stream for messages that belong to no request, which the client reads with GET,
// and a stream for each POST with an answer. Writing to a stream never blocks. The goroutine of an
// HTTP request (eventWriter) writes the messages of the stream to the client.
package streamable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Handler is the http.Handler for the transport's endpoint. A Handler must be closed.
type Handler struct {
	opts   Options
	policy atomic.Pointer[policy]
	memory *memoryReturner
	timers sync.Pool       // of *time.Timer
	ctx    context.Context // of all sessions
	end    context.CancelCauseFunc

	admitted chan struct{}  // signals that the policy has changed; capacity 1
	workers  sync.WaitGroup // expireSessions, memory.run, and session.run of each session

	mu       sync.Mutex // guards the fields below, and session.requests and session.idleSince
	sessions map[string]*session
	// principals have the requests of the stateless era, by token.
	principals map[bearer.Digest]*principal
	count      int // sessions, including ending sessions
	tokens     map[bearer.Digest]*usage
	addresses  map[netip.Prefix]*usage
	closed     bool
	taking     map[string]chan struct{} // takeovers of sessions in progress, by id; closed at the end of the takeover
}

// New makes a Handler. The Handler's sessions end with ctx.
func New(ctx context.Context, opts Options) *Handler {
	h := &Handler{
		opts: opts.withDefaults(), memory: newMemoryReturner(debug.FreeOSMemory),
		sessions: map[string]*session{}, principals: map[bearer.Digest]*principal{}, tokens: map[bearer.Digest]*usage{}, addresses: map[netip.Prefix]*usage{},
	}
	h.taking = map[string]chan struct{}{}
	h.timers.New = func() any { return time.NewTimer(time.Hour) }
	h.admitted = make(chan struct{}, 1)
	h.policy.Store(newPolicy(opts.Access, h.opts.WallClock))
	h.ctx, h.end = context.WithCancelCause(ctx)
	h.workers.Go(h.expireSessions)
	h.workers.Go(func() { h.memory.run(h.ctx) })
	return h
}

// Close ends all sessions and waits for them, at most until ctx ends. Requests in flight are
// answered if the backend still has an answer and the client still reads. Call Close before
// http.Server.Shutdown, which waits for open streams.
func (h *Handler) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end(wire.ErrClosed)
	done := make(chan struct{})
	go func() {
		h.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("http: sessions did not end in time: %w", context.Cause(ctx))
	}
}

// Sessions returns the number of sessions, including ending sessions.
func (h *Handler) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// find finds the session of an HTTP request. The session is not idle until the call of leave. A
// session can only be found with the token that began the session.
func (h *Handler) find(id string, token bearer.Digest) (*session, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.sessions[id]
	if !ok || s.token != token {
		return nil, false
	}
	s.requests++
	return s, true
}

// enter makes the end of a session wait for an HTTP request until serving.Done. enter returns false
// if the session has ended since find, which may be long ago, since a body may have been read in
// between.
func (h *Handler) enter(s *session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.id] != s {
		return false
	}
	s.serving.Add(1) // under the lock: none is added once run waits
	return true
}

func (h *Handler) leave(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.requests--
	s.idleSince = time.Now()
}

// remove hides an ended session from find.
func (h *Handler) remove(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.id] == s {
		delete(h.sessions, s.id)
	}
}

func (h *Handler) log() *slog.Logger { return h.opts.Session.Log }

// get opens the session's own stream, or resumes any stream.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest) {
	if !accepts(r, "text", "event-stream") {
		h.refuse(w, nil, refusal{http.StatusNotAcceptable, protocol.CodeHTTPRefused, "Accept must have text/event-stream"})
		return
	}
	s, ok := h.session(w, r, p, token, nil)
	if !ok {
		return
	}
	defer h.leave(s)
	defer s.serving.Done()
	s.used.Store(true)
	e := newEventWriter(w)
	var bad *refusal
	last := r.Header.Get(resumeHeader)
	id, known := parseEventID(last)
	switch {
	case known && id.term != s.term && id.stream != 0:
		s.answerUnresumed(e, id)
		return
	case last != "" && !(known && id.term != s.term): // else nothing can be replayed
		bad = s.resume(e, last)
	case !s.main.attach(e, 0, true):
		bad = &refusal{http.StatusConflict, protocol.CodeHTTPRefused, "the session has an open GET stream already"}
	}
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	s.serve(r.Context(), e, s.primes(r))
}

// answerUnresumed answers a client that resumes the stream of a request of another replica: this
// replica has no part of the stream.
func (s *session) answerUnresumed(e *eventWriter, id eventID) {
	request := []byte(id.request)
	if msg, err := wire.Parse([]byte(`{"jsonrpc":"2.0","method":"x","id":` + id.request + `}`)); err != nil || !msg.IsRequest() {
		s.handler.refuse(e.w, nil, refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "Last-Event-ID: the replica of the stream no longer has the session"})
		return
	}
	answer := wire.Response(request, wire.Reply{Error: wire.Errorf(wire.CodeInternal, "%s", errLostText).Raw()})
	e.writeHeader()
	if e.writeEvent(eventID{}, answer, false) == nil {
		_ = e.flush() // fails only if the client has disconnected
	}
}

// resume attaches e to the stream of the last event received by the client.
func (s *session) resume(e *eventWriter, last string) *refusal {
	id, ok := parseEventID(last)
	if !ok {
		return &refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "Last-Event-ID " + strconv.Quote(display.Clip(last, maxQuoted)) + " is not an event id of this server"}
	}
	out, ok := s.stream(id.stream)
	if !ok || !out.attach(e, id.seq, false) {
		return &refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "Last-Event-ID " + last + ": the stream has ended or never existed"}
	}
	return nil
}

var errDeleted = errors.New("the client has ended the session")

// delete ends a session, and answers when the session has been cleaned up.
func (h *Handler) delete(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest) {
	s, ok := h.session(w, r, p, token, nil)
	if !ok {
		return
	}
	s.serving.Done()
	h.leave(s)
	s.mcp.End(errDeleted)
	h.remove(s)
	<-s.ended
	w.WriteHeader(http.StatusNoContent)
}

var errIdle = errors.New("the session was idle for too long")

// expireSessions ends sessions that have been idle for too long, and sessions with expired tokens.
func (h *Handler) expireSessions() {
	ticker := time.NewTicker(min(max(min(h.opts.SessionTTL, h.opts.UnusedTTL)/10, time.Millisecond), time.Minute))
	defer ticker.Stop()
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		// Calculated before the expiry below, so that no token expires unnoticed in between.
		next := h.untilExpiry()
		h.endExpired()
		h.expire(time.Now())
		// The ticker also notices expired tokens after a change of the clock or a sleep of the
		// machine.
		expiry.Reset(next)
		select {
		case <-ticker.C:
		case <-expiry.C:
		case <-h.admitted: // other tokens
		case <-h.ctx.Done():
			return
		}
	}
}

// untilExpiry returns how long to wait for the next token to expire.
func (h *Handler) untilExpiry() time.Duration {
	p := h.policy.Load()
	if next, ok := p.nextExpiry(); ok {
		return next.Sub(p.now())
	}
	return time.Hour
}

// expire ends the sessions and principals idle for too long at a time.
func (h *Handler) expire(now time.Time) {
	h.mu.Lock()
	gone := h.removeIdlePrincipals(now)
	h.mu.Unlock()
	for _, p := range gone {
		p.conn.End(errIdle)
	}
	idle, unused, rest := h.removeIdle(now)
	for _, s := range idle {
		s.mcp.End(errIdle)
	}
	for _, s := range unused {
		s.mcp.End(errUnused)
	}
	for _, s := range rest {
		s.expireStreams(now.Add(-replayTime))
	}
}

// removeIdle removes the idle and the unused sessions at a time, and also returns the rest.
func (h *Handler) removeIdle(now time.Time) (idle, unused, rest []*session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeUsages()
	for id, s := range h.sessions {
		quiet := now.Sub(s.idleSince)
		switch {
		case s.requests > 0:
			rest = append(rest, s)
		case quiet > h.opts.SessionTTL:
			delete(h.sessions, id)
			idle = append(idle, s)
		case !s.used.Load() && quiet > h.opts.UnusedTTL:
			delete(h.sessions, id)
			unused = append(unused, s)
		default:
			rest = append(rest, s)
		}
	}
	return idle, unused, rest
}

// Access says which clients have access, and with which rights.
type Access struct {
	// Tokens are the accepted bearer tokens. Without Tokens, clients need no token.
	Tokens []bearer.Token
	// AllowedOrigins are origins of web pages ("https://host:port") that may use the endpoint from
	// a browser, in addition to the origin of the address that the request came to. "*" allows all.
	AllowedOrigins []string
	// AllowedHosts are host names, with or without a port, that clients may use to reach the
	// endpoint, in addition to loopback names and the address that they connected to. "*" allows
	// all. AllowedHosts is the place for the DNS name of the server.
	AllowedHosts []string
}

// Options of a Handler. Zero values mean the default.
type Options struct {
	// Session are the options of each session. MaxMessage also bounds the body of a request.
	Session clients.Options
	Access
	// SessionTTL is how long a session may be idle: without a request in flight and without an open
	// stream. Default DefaultSessionTTL.
	SessionTTL time.Duration
	// MaxSessions is the most sessions at a time. Default 1000.
	MaxSessions int
	// MaxSessionsPerToken and MaxSessionsPerAddress are the most sessions of a token and of an
	// address; an IPv6 /64 network counts as an address. The default is half of MaxSessions, but
	// MaxSessions without tokens or with a single token, and for loopback addresses, which proxies
	// connect from.
	MaxSessionsPerToken, MaxSessionsPerAddress int
	// UnusedTTL is SessionTTL for sessions in which only the handshake and pings were
	// received. Default 30 seconds.
	UnusedTTL time.Duration
	// InitializeRate is how many sessions a second a token, and an address, may begin. The rate
	// applies after a burst of as many sessions as the token or address may have, at least 100.
	// Default 50.
	InitializeRate int
	// Buffer is how many bytes, in addition to the largest message, may wait on a stream for a
	// client that does not read. Beyond Buffer the client's session ends. Default 16 MiB.
	Buffer int
	// Replay is how many bytes of a session's events are kept for a client that
	// resumes a stream, and how many bytes of messages for a client that has no
	// stream open. Default 1 MiB.
	Replay int
	// KeepAlive is the time between comments on an event stream. A request without an answer after
	// half of KeepAlive gets an event stream. Default 30 seconds.
	KeepAlive time.Duration
	// PrimeAfter is how long a request may take before the event stream begins, if the client
	// expects a first event with an id for resuming the stream. Default 1 second.
	PrimeAfter time.Duration
	// ResumeWindow is how long a client has to resume a broken stream before the cancellation of
	// the client's requests. Default 5 seconds. With a negative ResumeWindow, the stream of a
	// request cannot be resumed, and the events have no ids.
	ResumeWindow time.Duration
	// ListenWindow is how long a request to a client waits for the client to
	// open a stream. Default 2 seconds.
	ListenWindow time.Duration
	// Fleet is the fleet with the other replicas that can continue the sessions; nil without a
	// fleet.
	Fleet *Fleet
	// Replicas are the other replicas of a fleet; nil for none.
	Replicas Replicas
	// Refuses returns why no new session may begin now, or nil. A nil Refuses refuses no session.
	Refuses func() error
	// WallClock is the clock by which tokens expire. All else depends on how long
	// something takes. Default [time.Now].
	WallClock func() time.Time
}

// DefaultSessionTTL is the default of Options.SessionTTL.
const DefaultSessionTTL = 30 * time.Minute

func (o Options) withDefaults() Options {
	o.SessionTTL = cmp.Or(o.SessionTTL, DefaultSessionTTL)
	o.MaxSessions = cmp.Or(o.MaxSessions, 1000)
	o.UnusedTTL = cmp.Or(o.UnusedTTL, 30*time.Second)
	o.InitializeRate = cmp.Or(o.InitializeRate, 50)
	o.Buffer = cmp.Or(o.Buffer, 16<<20)
	o.Replay = cmp.Or(o.Replay, 1<<20)
	o.KeepAlive = cmp.Or(o.KeepAlive, 30*time.Second)
	o.PrimeAfter = cmp.Or(o.PrimeAfter, time.Second)
	o.ResumeWindow = cmp.Or(o.ResumeWindow, 5*time.Second)
	o.ListenWindow = cmp.Or(o.ListenWindow, 2*time.Second)
	if o.WallClock == nil {
		o.WallClock = time.Now
	}
	o.Session.MaxMessage = cmp.Or(o.Session.MaxMessage, wire.DefaultMaxMessage)
	return o
}

// Limits that cannot be configured.
const (
	// writeTimeout is how long a write to a client may make no progress before the connection
	// counts as dead.
	writeTimeout = 5 * time.Minute
	// replayTime is how long a finished stream is kept for a client that may have lost the end of
	// the stream.
	replayTime = 5 * time.Minute
	// closeTimeout is how long the end of a session waits for the session's HTTP requests, before
	// and after their connections are cut off.
	closeTimeout = 500 * time.Millisecond
)
