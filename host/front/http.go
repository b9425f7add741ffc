package front

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// HTTPOptions of an HTTP front end. Zero values mean the default.
type HTTPOptions struct {
	// Session are the options of each session; MaxMessage bounds the body of a
	// request too.
	Session Options
	// Tokens are the bearer tokens that let clients in; without any, everybody
	// may come in.
	Tokens []string
	// AllowedOrigins are origins of web pages ("https://host:port") that may
	// use the endpoint from a browser, beside those of the address that is
	// listened on; "*" is all.
	AllowedOrigins []string
	// AllowedHosts are host names under which clients may reach us, with or
	// without a port, beside loopback names and the address that they have
	// connected to; "*" is all. The name of an address we are bound to belongs
	// here.
	AllowedHosts []string
	// SessionTTL is how long a session may be idle: without a request in
	// flight and without an open stream. Default 30 minutes.
	SessionTTL time.Duration
	// MaxSessions is the most sessions at a time. Default 1000.
	MaxSessions int
	// Buffer is how many bytes beside the largest message may wait on one
	// stream for a client that does not read, until its session ends. Default
	// 16 MiB.
	Buffer int
	// Replay is how many bytes of a session's events are kept for a client that
	// resumes a stream, and of messages for one that has no stream open.
	// Default 1 MiB.
	Replay int
	// KeepAlive is the time between comments on an event stream; half of it is
	// how long a plain JSON answer is waited for. Default 30 seconds.
	KeepAlive time.Duration
	// ResumeWindow is the time in which a client can resume a broken stream
	// before its requests are cancelled. Default 5 seconds; below 0 no stream of
	// a request can be resumed, and its events have no ids.
	ResumeWindow time.Duration
	// ListenWindow is how long a request to a client waits for it to open a
	// stream. Default 2 seconds.
	ListenWindow time.Duration
}

func (o HTTPOptions) withDefaults() HTTPOptions {
	o.SessionTTL = cmp.Or(o.SessionTTL, 30*time.Minute)
	o.MaxSessions = cmp.Or(o.MaxSessions, 1000)
	o.Buffer = cmp.Or(o.Buffer, 16<<20)
	o.Replay = cmp.Or(o.Replay, 1<<20)
	o.KeepAlive = cmp.Or(o.KeepAlive, 30*time.Second)
	o.ResumeWindow = cmp.Or(o.ResumeWindow, 5*time.Second)
	o.ListenWindow = cmp.Or(o.ListenWindow, 2*time.Second)
	o.Session.MaxMessage = cmp.Or(o.Session.MaxMessage, wire.DefaultMaxMessage)
	return o
}

// Times that are nobody's to choose.
const (
	// writeStall is how long a client may take no byte of what is written to it
	// before its connection counts as dead.
	writeStall = 5 * time.Minute
	// readStall is the time for the body of a request.
	readStall = 2 * time.Minute
	// replayTime is how long a finished stream is kept for a client that may
	// have lost the end of it.
	replayTime = 5 * time.Minute
)

// HTTP is the streamable HTTP front end (revisions 2025-03-26 to 2025-11-25,
// basic/transports): a http.Handler for its one endpoint. Whoever makes it must
// Close it.
type HTTP struct {
	opts  HTTPOptions
	guard atomic.Pointer[guard]
	ctx   context.Context // of all sessions
	end   context.CancelCauseFunc

	workers sync.WaitGroup // sweep, and one watch per session

	mu     sync.Mutex // guards what follows, and visit.busy and visit.last
	visits map[string]*visit
	count  int // sessions, with those that are ending
	closed bool
}

// NewHTTP makes an HTTP front end whose sessions end with ctx.
func NewHTTP(ctx context.Context, opts HTTPOptions) *HTTP {
	h := &HTTP{opts: opts.withDefaults(), visits: map[string]*visit{}}
	h.guard.Store(newGuard(opts.Tokens, opts.AllowedOrigins, opts.AllowedHosts))
	h.ctx, h.end = context.WithCancelCause(ctx)
	h.workers.Go(h.sweep)
	return h
}

// Close ends all sessions and waits for them, at most until ctx ends. Their
// requests in flight are answered where the backend still has an answer and
// the client still reads. It has to come before http.Server.Shutdown, which
// waits for open streams.
func (h *HTTP) Close(ctx context.Context) error {
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

// Admit changes who may come in; see the fields of HTTPOptions. Sessions that
// were made with a token that is none any more end.
func (h *HTTP) Admit(tokens, allowedOrigins, allowedHosts []string) {
	g := newGuard(tokens, allowedOrigins, allowedHosts)
	var revoked []*visit
	h.mu.Lock()
	h.guard.Store(g)
	for id, v := range h.visits {
		if !g.knows(v.token) {
			delete(h.visits, id)
			revoked = append(revoked, v)
		}
	}
	h.mu.Unlock()
	for _, v := range revoked {
		v.session.End(errRevoked)
	}
}

// Sessions is the number of sessions, with those that are ending.
func (h *HTTP) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// errFull says that there are MaxSessions sessions; errClosing that no more
// are taken.
var (
	errFull    = errors.New("too many sessions are open (try again later, or raise max_sessions)")
	errClosing = errors.New("the server is shutting down")
	errRevoked = errors.New("the token is not valid any more")
)

// admit begins a session for whoever has the token. The caller is in it
// (leave).
func (h *HTTP) admit(token digest) (*visit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.ctx.Err() != nil {
		return nil, errClosing
	}
	if !h.guard.Load().knows(token) { // not any more, since the request was let in
		return nil, errRevoked
	}
	if h.count >= h.opts.MaxSessions {
		return nil, errFull
	}
	v := newVisit(h, rand.Text(), token)
	h.visits[v.id] = v
	h.count++
	v.busy++
	v.inside.Add(1)
	h.workers.Go(v.watch)
	return v, nil
}

// enter finds a session for one HTTP request of its client; leave must follow.
// Whoever comes with another token than the session was made with does not
// find it.
func (h *HTTP) enter(id string, token digest) (*visit, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, ok := h.visits[id]
	if !ok || v.token != token {
		return nil, false
	}
	v.busy++
	v.inside.Add(1) // under the lock: none is added once watch waits
	return v, true
}

func (h *HTTP) leave(v *visit) {
	h.mu.Lock()
	v.busy--
	v.last = time.Now()
	h.mu.Unlock()
	v.inside.Done()
}

// forget takes a session that has ended out of sight.
func (h *HTTP) forget(v *visit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.visits, v.id)
}

// release makes room for another session.
func (h *HTTP) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
}

var errIdle = errors.New("the session was idle for too long")

// sweep ends sessions that have been idle for SessionTTL.
func (h *HTTP) sweep() {
	ticker := time.NewTicker(min(max(h.opts.SessionTTL/10, time.Millisecond), time.Minute))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-h.ctx.Done():
			return
		}
		idle, rest := h.idle()
		for _, v := range idle {
			v.session.End(errIdle)
		}
		for _, v := range rest {
			v.expire(time.Now().Add(-replayTime))
		}
	}
}

// idle parts the sessions. Those that are idle cannot be entered any more.
func (h *HTTP) idle() (idle, rest []*visit) {
	since := time.Now().Add(-h.opts.SessionTTL)
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, v := range h.visits {
		if v.busy == 0 && v.last.Before(since) {
			delete(h.visits, id)
			idle = append(idle, v)
		} else {
			rest = append(rest, v)
		}
	}
	return idle, rest
}

func (h *HTTP) log() *slog.Logger { return h.opts.Session.Log }
