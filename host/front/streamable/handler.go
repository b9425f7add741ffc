// Package streamable is the front end for MCP's streamable HTTP transport
// (revisions 2025-03-26 to 2025-11-25, basic/transports).
//
//	handler.go      the http.Handler: its sessions by their ids
//	options.go      options and limits
//	headers.go      headers of requests and answers, refusals
//	policy.go       who has access: Host, Origin, tokens
//	post.go         POST: messages of clients and the answers to them
//	get.go          GET and DELETE: streams that clients open or resume, the end of a session
//	body.go         reading the body of a request
//	memory.go       returning memory to the system after many large bodies
//	admit.go        limits on sessions by token and address
//	session.go      one session: its streams and its end
//	stream.go       the messages of one stream, sent or not
//	stateless.go    POST of the stateless era
//	principal.go    what requests of that era with one token share
//	response.go     the answer to one of them
//	event.go        server-sent events on the wire
//	sink.go         writing events to the client
//	writer.go       the connection that takes a stream's messages to the client
//	connections.go  limits on connections by address
//	server.go       the http.Server around the handler
//
// A session has one stream for messages that belong to no request, which the client
// reads with GET, and one for each POST that needs an answer. Writing to a stream never
// blocks. The goroutine of an HTTP request (eventWriter) writes the messages of the
// stream to the client.
package streamable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Handler is the http.Handler for the one endpoint of the transport. It must be
// closed.
type Handler struct {
	opts   Options
	policy atomic.Pointer[policy]
	memory *memoryReturner
	timers sync.Pool       // of *time.Timer
	ctx    context.Context // of all sessions
	end    context.CancelCauseFunc

	workers sync.WaitGroup // expireSessions, memory.run, and one session.run per session

	mu       sync.Mutex // guards what follows, and session.requests and session.idleSince
	sessions map[string]*session
	// principals have the requests of the stateless era, by token.
	principals map[bearer.Digest]*principal
	count      int // sessions, including those that are ending
	tokens     map[bearer.Digest]*usage
	addresses  map[netip.Prefix]*usage
	closed     bool
}

// New makes a Handler whose sessions end with ctx.
func New(ctx context.Context, opts Options) *Handler {
	h := &Handler{
		opts: opts.withDefaults(), memory: newMemoryReturner(debug.FreeOSMemory),
		sessions: map[string]*session{}, principals: map[bearer.Digest]*principal{}, tokens: map[bearer.Digest]*usage{}, addresses: map[netip.Prefix]*usage{},
	}
	h.timers.New = func() any { return time.NewTimer(time.Hour) }
	h.policy.Store(newPolicy(opts.Access))
	h.ctx, h.end = context.WithCancelCause(ctx)
	h.workers.Go(h.expireSessions)
	h.workers.Go(func() { h.memory.run(h.ctx) })
	return h
}

// Close ends all sessions and waits for them, at most until ctx ends. Their
// requests in flight are answered if the backend still has an answer and the
// client still reads. Call it before http.Server.Shutdown, which waits for open
// streams.
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

// SetAccess replaces the access policy. It ends sessions whose token is no longer
// accepted. Clients whose permission to save tools has changed are notified that the
// list of tools has changed.
func (h *Handler) SetAccess(a Access) {
	p := newPolicy(a)
	var revoked, changed []*session
	h.mu.Lock()
	before := h.policy.Swap(p)
	for id, s := range h.sessions {
		switch {
		case !p.accepts(s.token):
			delete(h.sessions, id)
			revoked = append(revoked, s)
		case p.maySave(s.token) != before.maySave(s.token):
			changed = append(changed, s)
		}
	}
	var refused, informed []*principal
	for token, p := range h.principals {
		switch now := h.policy.Load(); {
		case !now.accepts(token):
			delete(h.principals, token)
			refused = append(refused, p)
		case now.maySave(token) != before.maySave(token):
			informed = append(informed, p)
		}
	}
	h.mu.Unlock()
	for _, p := range refused {
		p.conn.End(errRevoked)
	}
	for _, p := range informed {
		p.mcp.Changed(wire.Tools, nil)
	}
	for _, s := range revoked {
		s.mcp.End(errRevoked)
	}
	for _, s := range changed {
		s.mcp.Changed(wire.Tools, nil)
	}
}

// Sessions returns the number of sessions, including those that are ending.
func (h *Handler) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// find finds the session of an HTTP request. The session is not idle until leave
// is called. A session can only be found with the token that began it.
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

// enter makes the end of a session wait for an HTTP request until serving.Done. It
// returns false if the session has ended since it was found, which may be long ago,
// since a body may have been read in between.
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

// remove makes sure that a session that has ended is not found.
func (h *Handler) remove(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, s.id)
}

var errIdle = errors.New("the session was idle for too long")

// expireSessions ends sessions that have been idle for too long.
func (h *Handler) expireSessions() {
	ticker := time.NewTicker(min(max(min(h.opts.SessionTTL, h.opts.UnusedTTL)/10, time.Millisecond), time.Minute))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-h.ctx.Done():
			return
		}
		h.expire(time.Now())
	}
}

// expire ends what has been idle for too long at a time.
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

// removeIdle removes the sessions that are idle or unused at a time, and returns the rest
// too.
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

func (h *Handler) log() *slog.Logger { return h.opts.Session.Log }
