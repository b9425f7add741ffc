// Package front holds MCP sessions with clients, over any transport, and the
// stdio transport. Package streamable is the HTTP transport.
//
//	session.go    Session: options, life cycle, messages in both directions
//	handshake.go  initialize and what comes before it
//	request.go    requests of the client
//	call.go       requests to the client
//	changes.go    notifications that a list has changed
//	stdio.go      the stdio transport
//
// The JSON-RPC connection is that of package rpc: it knows what is in flight in
// both directions. A Session adds what MCP has of a session: the handshake, the
// revision, and which lists the client has seen.
package front

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Backend answers the requests of sessions.
type Backend interface {
	// Welcome begins the session s. It returns what the answer to initialize
	// says. The error is an *wire.RPCError, or the cause of ctx.
	Welcome(ctx context.Context, s route.Session) (route.Welcome, error)
	// Handle answers every request but initialize and ping.
	Handle(ctx context.Context, call route.Call) wire.Reply
	// Notified takes every notification but those about a single request. It is
	// called in the order of the stream, whose next message waits for it.
	Notified(s route.Session, method string, params []byte)
	// Left says that a session has ended for which Welcome was called, even if
	// Welcome failed. None of its requests is in flight any more, unless Close
	// had to give one up.
	Left(s route.Session)
}

// Submitter is a Backend that can answer some requests without a goroutine that
// waits; see route.Router.Submit.
type Submitter interface {
	Submit(call route.Call, to route.Responder) (cancel func(cause error), ok bool)
}

// Options of a session.
type Options struct {
	Backend       Backend
	Name, Version string         // of this server
	MaxMessage    int            // bytes; 0: wire.DefaultMaxMessage
	Budget        *budget.Budget // for messages in flight; nil: none
	KeepWorkers   int            // idle goroutines that are kept for the next requests
	MaySave       func() bool    // tells whether the client may save tools; nil: it may
	Log           *slog.Logger
}

// maxRequests bounds the requests of one session that are worked on at once.
const maxRequests = 4096

// closeTimeout is how long Close waits for work that was cancelled.
const closeTimeout = 500 * time.Millisecond

// Why work ends without an answer.
var (
	// ErrStalled says that a session was given up while its client did not read.
	ErrStalled = errors.New("the client does not read its messages; they are lost")
	// ErrNotListening says that the client has no stream open on which a request
	// could reach it.
	ErrNotListening = errors.New("the client is not listening (it has no GET stream open)")
)

// Session is a session with one client. It implements route.Session.
type Session struct {
	id        string // for records
	opts      Options
	submitter Submitter // the Backend; nil if it is none
	conn      *rpc.Conn

	notifier   sync.WaitGroup // notifyChanges
	hasChanges chan struct{}  // holds a token while there is something in changes

	mu        sync.Mutex // guards what follows; a leaf
	handshake handshake
	welcomed  bool   // the backend has heard of the session
	params    []byte // of initialize
	revision  protocol.Revision
	listed    map[wire.Surface]bool   // lists that the client has read
	changes   map[wire.Surface][]byte // lists whose change the client is to be told of, with the notices
}

// NewSession makes a session with the client behind a stream, which takes the
// messages that belong to no request of the client. The session ends with ctx.
// Whoever makes it feeds it (Receive) and must Close it.
func NewSession(ctx context.Context, main rpc.Stream, opts Options) *Session {
	s := &Session{
		id: rand.Text()[:16], opts: opts, hasChanges: make(chan struct{}, 1),
		listed: map[wire.Surface]bool{}, changes: map[wire.Surface][]byte{},
	}
	s.submitter, _ = opts.Backend.(Submitter)
	s.conn = rpc.New(ctx, rpc.Options{
		Peer: rpc.Client, Main: main, Handler: (*handler)(s), Errors: callErrors{}, SerialIDs: true,
		MaxRequests: maxRequests, KeepWorkers: opts.KeepWorkers, Count: opts.Budget.Count, Log: opts.Log,
	})
	s.notifier.Go(s.notifyChanges)
	return s
}

// Receive takes one message of the client, or a batch of them, that came on a
// stream. It returns as soon as the requests in it are registered; see
// rpc.Conn.Receive. Parts of raw are kept.
func (s *Session) Receive(raw []byte, on rpc.Stream) (waits bool) { return s.conn.Receive(raw, on) }

// ReceiveMessage is Receive for a message that the transport has parsed: msg and
// err are the results of wire.Parse. on may be nil if the message wants no answer.
func (s *Session) ReceiveMessage(msg wire.Message, err error, raw []byte, on rpc.Stream) (waits bool) {
	return s.conn.ReceiveMessage(msg, err, raw, on)
}

// IsBatch reports whether raw is a JSON-RPC batch and the session's revision has
// batches.
func (s *Session) IsBatch(raw []byte) bool { return s.conn.IsBatch(raw) }

// Abandon says that the client has disconnected from a stream: the requests that
// came on it are cancelled, and those that were sent on it to the client fail.
func (s *Session) Abandon(on rpc.Stream) { s.conn.Abandon(on, ErrClientGone) }

// End ends the session: the contexts of its requests in flight end with cause.
// Their answers, if they have any, are still written. It does not block.
func (s *Session) End(cause error) { s.conn.End(cause) }

// Done is closed when the session has ended. Close then waits for its work.
func (s *Session) Done() <-chan struct{} { return s.conn.Done() }

// Err is why the session has ended; nil while it has not.
func (s *Session) Err() error { return s.conn.Err() }

// Close ends the session and waits for its work. The error is ErrStalled if some of
// it did not end in time.
func (s *Session) Close() error {
	done := s.conn.CloseWithin(closeTimeout, wire.ErrClosed)
	s.notifier.Wait()
	s.mu.Lock()
	welcomed := s.welcomed
	s.mu.Unlock()
	if welcomed {
		s.opts.Backend.Left(s)
	}
	if !done {
		return ErrStalled
	}
	return nil
}

// ID implements route.Session.
func (s *Session) ID() string { return s.id }

// Session implements route.Origin.
func (s *Session) Session() route.Session { return s }

// Client implements route.Session.
func (s *Session) Client() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.params
}

// Revision implements route.Session; none before initialize.
func (s *Session) Revision() protocol.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// MaySave implements route.Session.
func (s *Session) MaySave() bool { return s.opts.MaySave == nil || s.opts.MaySave() }

// Notify implements route.Origin.
func (s *Session) Notify(method string, params []byte) {
	s.logLost(s.conn.Notify(s.conn.Context(), nil, method, params))
}

func (s *Session) logLost(err error) {
	if err != nil {
		s.opts.Log.Debug("notification to the client lost", "err", err)
	}
}
