// Package streamable is the front end for MCP's streamable HTTP transport (revisions 2025-03-26 to
// 2025-11-25, basic/transports), and for requests of the stateless era over HTTP. Begin with
// Handler.
//
// A session has a stream for messages that belong to no request, which the client reads with GET,
// and a stream for each POST with an answer. Writing to a stream never blocks. The goroutine of an
// HTTP request (eventWriter) writes the messages of the stream to the client.
package streamable

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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
