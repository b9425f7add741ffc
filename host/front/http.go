package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Access says who may come in over HTTP, and who may do what then.
type Access struct {
	// Tokens are the bearer tokens that let clients in; without any, everybody
	// may come in.
	Tokens []string
	// NoSave are those of Tokens whose clients may not save and delete tools.
	NoSave []string
	// AllowedOrigins are origins of web pages ("https://host:port") that may
	// use the endpoint from a browser, beside those of the address that is
	// listened on; "*" is all.
	AllowedOrigins []string
	// AllowedHosts are host names under which clients may reach us, with or
	// without a port, beside loopback names and the address that they have
	// connected to; "*" is all. The name of an address we are bound to belongs
	// here.
	AllowedHosts []string
}

// HTTPOptions of an HTTP front end. Zero values mean the default.
type HTTPOptions struct {
	// Session are the options of each session; MaxMessage bounds the body of a
	// request too.
	Session Options
	Access
	// SessionTTL is how long a session may be idle: without a request in
	// flight and without an open stream. Default 30 minutes.
	SessionTTL time.Duration
	// MaxSessions is the most sessions at a time. Default 1000.
	MaxSessions int
	// MaxSessionsPerToken and MaxSessionsPerAddress are the most of one token and
	// of one address; an IPv6 network /64 counts as one address. Default half of
	// MaxSessions, but all of them where there are not several tokens, and for
	// loopback addresses, from where proxies come.
	MaxSessionsPerToken, MaxSessionsPerAddress int
	// UnusedTTL is SessionTTL for sessions that were never used: in which nothing
	// came but the handshake and pings. Default 30 seconds.
	UnusedTTL time.Duration
	// InitializeRate is how many sessions one token, and one address, may begin in
	// a second, beyond the first 100, or as many as it may have. Default 50.
	InitializeRate int
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
	o.UnusedTTL = cmp.Or(o.UnusedTTL, 30*time.Second)
	o.InitializeRate = cmp.Or(o.InitializeRate, 50)
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
	// replayTime is how long a finished stream is kept for a client that may
	// have lost the end of it.
	replayTime = 5 * time.Minute
)

// HTTP is the streamable HTTP front end (revisions 2025-03-26 to 2025-11-25,
// basic/transports): a http.Handler for its one endpoint. Whoever makes it must
// Close it.
type HTTP struct {
	opts   HTTPOptions
	guard  atomic.Pointer[guard]
	memory *giver
	timers sync.Pool       // of *time.Timer
	ctx    context.Context // of all sessions
	end    context.CancelCauseFunc

	workers sync.WaitGroup // sweep, memory.run, and one watch per session

	mu        sync.Mutex // guards what follows, and visit.busy and visit.last
	visits    map[string]*visit
	count     int // sessions, with those that are ending
	tokens    map[digest]*holder
	addresses map[netip.Prefix]*holder
	closed    bool
}

// NewHTTP makes an HTTP front end whose sessions end with ctx.
func NewHTTP(ctx context.Context, opts HTTPOptions) *HTTP {
	h := &HTTP{
		opts: opts.withDefaults(), memory: newGiver(debug.FreeOSMemory),
		visits: map[string]*visit{}, tokens: map[digest]*holder{}, addresses: map[netip.Prefix]*holder{},
	}
	h.timers.New = func() any { return time.NewTimer(time.Hour) }
	h.guard.Store(newGuard(opts.Access))
	h.ctx, h.end = context.WithCancelCause(ctx)
	h.workers.Go(h.sweep)
	h.workers.Go(func() { h.memory.run(h.ctx) })
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

// Admit changes who may come in. Sessions that were made with a token that is none
// any more end. Those that may save tools now, or not any more, are told that
// there are other tools.
func (h *HTTP) Admit(a Access) {
	g := newGuard(a)
	var revoked, changed []*visit
	h.mu.Lock()
	before := h.guard.Swap(g)
	for id, v := range h.visits {
		switch {
		case !g.knows(v.token):
			delete(h.visits, id)
			revoked = append(revoked, v)
		case g.saves(v.token) != before.saves(v.token):
			changed = append(changed, v)
		}
	}
	h.mu.Unlock()
	for _, v := range revoked {
		v.session.End(errRevoked)
	}
	for _, v := range changed {
		v.session.Changed(wire.Tools)
	}
}

// Sessions is the number of sessions, with those that are ending.
func (h *HTTP) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// find finds a session for one HTTP request of its client, and keeps it from being
// idle until leave. Whoever comes with another token than the session was made
// with does not find it.
func (h *HTTP) find(id string, token digest) (*visit, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, ok := h.visits[id]
	if !ok || v.token != token {
		return nil, false
	}
	v.busy++
	return v, true
}

// enter has the end of a session that was found wait for the request, until
// inside.Done. It is false when the session has ended: a body may have been read
// meanwhile.
func (h *HTTP) enter(v *visit) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.visits[v.id] != v {
		return false
	}
	v.inside.Add(1) // under the lock: none is added once watch waits
	return true
}

func (h *HTTP) leave(v *visit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.busy--
	v.last = time.Now()
}

// forget takes a session that has ended out of sight.
func (h *HTTP) forget(v *visit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.visits, v.id)
}

var errIdle = errors.New("the session was idle for too long")

// sweep ends sessions that have been idle for too long.
func (h *HTTP) sweep() {
	ticker := time.NewTicker(min(max(min(h.opts.SessionTTL, h.opts.UnusedTTL)/10, time.Millisecond), time.Minute))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-h.ctx.Done():
			return
		}
		idle, unused, rest := h.idle()
		for _, v := range idle {
			v.session.End(errIdle)
		}
		for _, v := range unused {
			v.session.End(errUnused)
		}
		for _, v := range rest {
			v.expire(time.Now().Add(-replayTime))
		}
	}
}

// idle parts the sessions. Those that are idle or unused cannot be found any more.
func (h *HTTP) idle() (idle, unused, rest []*visit) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetHolders()
	for id, v := range h.visits {
		quiet := now.Sub(v.last)
		switch {
		case v.busy > 0:
			rest = append(rest, v)
		case quiet > h.opts.SessionTTL:
			delete(h.visits, id)
			idle = append(idle, v)
		case !v.used.Load() && quiet > h.opts.UnusedTTL:
			delete(h.visits, id)
			unused = append(unused, v)
		default:
			rest = append(rest, v)
		}
	}
	return idle, unused, rest
}

func (h *HTTP) log() *slog.Logger { return h.opts.Session.Log }
