// Package clients implements MCP sessions with clients, independently of the transport, and the
// stdio transport. Begin with Session. Package streamable is the HTTP transport.
//
// Package rpc has the JSON-RPC connection, with the requests in flight in both directions. A
// Session adds the MCP part: the handshake, the revision, and the set of lists that the client has
// read.
package clients

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Backend answers the requests of sessions.
type Backend interface {
	// BeginSession begins the session s, and returns the result of the initialize request. The
	// error is a *wire.RPCError, or the cause of ctx.
	BeginSession(ctx context.Context, s route.Session) (route.InitializeResult, error)
	// Discover, Begin and Hints are for the stateless era.
	stateless.Backend
	// HeaderParams returns the arguments of a tool that HTTP requests repeat in headers.
	HeaderParams(s route.Session, tool string) envelope.Params
	// Handle answers every request but initialize and ping.
	Handle(ctx context.Context, call route.Call) wire.Reply
	// Notified takes all notifications except those about a single request. The session calls
	// Notified in the order of the stream, and the next message waits for the return.
	Notified(s route.Session, method string, params []byte)
	// EndSession is called after the end of a session if BeginSession was called, even if
	// BeginSession failed. By then the session has no requests in flight, unless Session.Close has
	// stopped waiting for a request.
	EndSession(s route.Session)
}

// Submitter is a Backend that can answer some requests without a waiting goroutine; see
// route.Router.Submit.
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
	Principal     string         // see route.Session; "" for none
	// Stateless are the options that only the stateless era has.
	Stateless
	// Rights and TokenName return the values for route.Session; nil: none.
	Rights    func() *bearer.Rights
	TokenName func() string
	memory    rpc.Memory // see rpc.Options; nil if the streams count their own memory
	// Persist, if set, saves the result of Session.Keep. The session calls Persist before the
	// answer to a request that has changed this result. Persist may wait briefly, and returns when
	// ctx ends.
	Persist func(ctx context.Context)
	// Tracer follows the requests of the client, and the requests to the client; may be nil.
	Tracer Tracer
	Log    *slog.Logger
}

// Tracer follows requests, for telemetry. It is safe for concurrent use and must not
// block.
type Tracer interface {
	stateless.Tracer
	rpc.Tracer // for requests to the client
}

// Stateless are options of the stateless era; see stateless.Options.
type Stateless struct {
	Sealer       *requeststate.Sealer
	Parking      *stateless.Parking
	Lost         func(replica string) (description string, ended bool)
	InputTimeout func() time.Duration
}

// PrincipalOptions returns the options of a principal with those of a session.
func (o *Options) PrincipalOptions() stateless.Options {
	opts := stateless.Options{
		Backend: o.Backend, Name: o.Name, Version: o.Version, Principal: o.Principal, Rights: o.Rights, TokenName: o.TokenName,
		Sealer: o.Sealer, Parking: o.Parking, Budget: o.Budget, Lost: o.Lost, InputTimeout: o.InputTimeout, Log: o.Log,
	}
	if o.Tracer != nil {
		opts.Tracer = o.Tracer
	}
	return opts
}

// maxRequests bounds the requests of one session in flight.
const maxRequests = 4096

// closeTimeout is how long Close waits for cancelled requests.
const closeTimeout = 500 * time.Millisecond

// Reasons why requests end without an answer.
var (
	// ErrStalled is the error of a session abandoned because the client did not read.
	ErrStalled = errors.New("the client does not read its messages; they are lost")
	// ErrNotListening means that the client has no open stream for a request to the client.
	ErrNotListening = route.ErrNotListening
)

// Session is a session with one client. It implements route.Session.
type Session struct {
	id        string // for records
	opts      Options
	submitter Submitter // the Backend, if the Backend is a Submitter; else nil
	conn      *rpc.Conn
	// principal answers requests of the stateless era, which can come on the same
	// stream; nil if they cannot.
	principal *stateless.Principal

	notifier   sync.WaitGroup // notifyChanges
	hasChanges chan struct{}  // holds a token while changes is not empty

	mu        sync.Mutex // guards the fields below; a leaf
	handshake handshake
	begun     bool   // BeginSession is or was called, so EndSession must follow
	params    []byte // of initialize
	revision  protocol.Revision
	listed    map[wire.Surface]bool   // lists that the client has read
	changes   map[wire.Surface][]byte // lists whose change must be announced to the client, with the notices
}

// NewSession makes a session with a client. main is the stream for messages to the client that
// belong to none of the client's requests. The session ends with ctx. The caller passes the
// client's messages to Receive, and must call Close.
func NewSession(ctx context.Context, main rpc.Stream, opts Options) *Session {
	s := &Session{
		id: rand.Text()[:16], opts: opts, hasChanges: make(chan struct{}, 1),
		listed: map[wire.Surface]bool{}, changes: map[wire.Surface][]byte{},
	}
	s.submitter, _ = opts.Backend.(Submitter)
	conn := rpc.Options{
		Peer: rpc.Client, Main: main, Handler: (*handler)(s), Errors: callErrors{}, SerialIDs: true,
		MaxRequests: maxRequests, KeepWorkers: opts.KeepWorkers, Memory: opts.memory, Log: opts.Log,
		HandlesPing: envelope.IsPresent,
	}
	if opts.Tracer != nil {
		conn.Tracer = opts.Tracer
	}
	s.conn = rpc.New(ctx, conn)
	s.notifier.Go(s.notifyChanges)
	return s
}

// Receive takes a message or a batch of messages of the client from a stream. Receive returns when
// the requests in raw are registered; see rpc.Conn.Receive. The session keeps parts of raw.
func (s *Session) Receive(raw []byte, on rpc.Stream) (waits bool) { return s.conn.Receive(raw, on) }

// ReceiveMessage is Receive for a message already parsed by the transport: msg and err are the
// results of wire.Parse. on may be nil if the message wants no answer.
func (s *Session) ReceiveMessage(msg wire.Message, err error, raw []byte, on rpc.Stream) (waits bool) {
	return s.conn.ReceiveMessage(msg, err, raw, on)
}

// IsBatch reports whether raw is a JSON-RPC batch and the session's revision has
// batches.
func (s *Session) IsBatch(raw []byte) bool { return s.conn.IsBatch(raw) }

// Abandon tells the session that the client has disconnected from a stream. Abandon cancels the
// requests that arrived on the stream, and fails the requests sent on the stream.
func (s *Session) Abandon(on rpc.Stream) { s.conn.Abandon(on, ErrClientGone) }

// End ends the session: the contexts of requests in flight end with cause. Remaining answers to
// these requests are still written. End does not block.
func (s *Session) End(cause error) { s.conn.End(cause) }

// Done returns a channel that is closed at the end of the session. Close then waits for the
// session's goroutines.
func (s *Session) Done() <-chan struct{} { return s.conn.Done() }

// Err returns the reason for the end of the session, or nil while the session lasts.
func (s *Session) Err() error { return s.conn.Err() }

// Close ends the session and waits for the session's goroutines. The error is ErrStalled if some
// goroutines did not end in time.
func (s *Session) Close() error {
	done := s.conn.CloseWithin(closeTimeout, wire.ErrClosed)
	if s.principal != nil && !s.principal.Close(closeTimeout) {
		done = false
	}
	s.notifier.Wait()
	s.mu.Lock()
	begun := s.begun
	s.mu.Unlock()
	if begun {
		s.opts.Backend.EndSession(s)
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

// Client implements route.Origin.
func (s *Session) Client() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.params
}

// Revision implements route.Origin; none before initialize.
func (s *Session) Revision() protocol.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// LogLevel implements route.Origin.
func (s *Session) LogLevel() string { return "" }

// Principal implements route.Session.
func (s *Session) Principal() string { return s.opts.Principal }

// Rights implements route.Session.
func (s *Session) Rights() *bearer.Rights {
	if s.opts.Rights == nil {
		return nil
	}
	return s.opts.Rights()
}

// TokenName implements route.Session.
func (s *Session) TokenName() string {
	if s.opts.TokenName == nil {
		return ""
	}
	return s.opts.TokenName()
}

// Notify implements route.Origin.
func (s *Session) Notify(method string, params []byte) {
	s.logLost(s.conn.Notify(s.conn.Context(), nil, method, params))
}

func (s *Session) logLost(err error) {
	if err != nil {
		s.opts.Log.Debug("notification to the client lost", "err", err)
	}
}

// Changed implements route.Session. A client before the end of the handshake, and a client without
// a read list, cannot know a changed list.
func (s *Session) Changed(surface wire.Surface, notice []byte) {
	s.mu.Lock()
	announce := s.handshake == handshakeDone || s.listed[surface]
	if surface == wire.Templates { // templates have no notification of their own
		surface = wire.Resources
	}
	if announce {
		if before, due := s.changes[surface]; due && !bytes.Equal(before, notice) {
			notice = nil
		}
		s.changes[surface] = notice
	}
	s.mu.Unlock()
	if !announce {
		return
	}
	select {
	case s.hasChanges <- struct{}{}:
	default: // changed already holds a token
	}
}

// noteListed records that the client reads a list, if method lists something. The caller calls
// noteListed before making the list, so that no change in between is missed.
func (s *Session) noteListed(method string) {
	for _, surface := range wire.Surfaces {
		if method == surface.ListMethod() {
			s.mu.Lock()
			s.listed[surface] = true
			s.mu.Unlock()
		}
	}
}

// notifyChanges sends notifications of changed lists until the session ends. Changes during the
// sending of a notification become a single notification.
func (s *Session) notifyChanges() {
	for {
		select {
		case <-s.hasChanges:
		case <-s.conn.Context().Done():
			return
		}
		s.mu.Lock()
		changes := s.changes
		s.changes = map[wire.Surface][]byte{}
		s.mu.Unlock()
		for _, surface := range wire.Surfaces {
			if notice, due := changes[surface]; due {
				s.Notify(surface.ChangedMethod(), notice)
			}
		}
	}
}

// keptSession is the state of a session for the process that continues the session.
type keptSession struct {
	// ID is the ID of the route.Session.
	ID string `json:"id"`
	// Params are the params of initialize, and Revision is the negotiated revision.
	Params   json.RawMessage `json:"params"`
	Revision string          `json:"revision"`
	route.Kept
}

// Restorer is a Backend with sessions that can continue in another process.
type Restorer interface {
	// Keep and Restore are the methods of route.Router. Restore takes the place of BeginSession.
	Keep(s route.Session) (k route.Kept, called policy.Counts, ok bool)
	Restore(s route.Session, k route.Kept, called policy.Counts)
}

// Keep returns the session's state as JSON for the process that continues the session, and the
// counts of the session's calls, nil without calls. ok is false if the session has not begun or has
// ended, or if the backend is no Restorer.
func (s *Session) Keep() (state, calls []byte, ok bool) {
	backend, can := s.opts.Backend.(Restorer)
	if !can {
		return nil, nil, false
	}
	s.mu.Lock()
	k := keptSession{ID: s.id, Params: s.params}
	revision := s.revision
	s.mu.Unlock()
	if revision.IsZero() {
		return nil, nil, false
	}
	k.Revision = revision.String()
	var called policy.Counts
	if k.Kept, called, ok = backend.Keep(s); !ok {
		return nil, nil, false
	}
	state, err := json.Marshal(k)
	if err == nil && called.Total > 0 {
		calls, err = json.Marshal(called)
	}
	if err != nil {
		s.opts.Log.Error("a session cannot be kept", "err", err)
	}
	return state, calls, err == nil
}

// Restore makes a new Session continue a session of another process, in place of initialize; state
// and calls are the results of Keep in the other process. Restore tells the client that lists may
// have changed. No other method may be called before Restore.
func (s *Session) Restore(state, calls []byte) error {
	backend, can := s.opts.Backend.(Restorer)
	if !can {
		return errors.New("sessions cannot move to this process")
	}
	var k keptSession
	if err := json.Unmarshal(state, &k); err != nil {
		return fmt.Errorf("the state of a session: %w", err)
	}
	var called policy.Counts
	if len(calls) > 0 {
		if err := json.Unmarshal(calls, &called); err != nil {
			return fmt.Errorf("session %s: the counts of calls: %w", k.ID, err)
		}
	}
	revision, known := protocol.Handshake.Lookup(k.Revision)
	if !known {
		return fmt.Errorf("session %s: this version does not know revision %.40q", k.ID, k.Revision)
	}
	s.mu.Lock()
	s.id, s.params, s.revision = k.ID, k.Params, revision
	s.handshake, s.begun = handshakeDone, true
	s.conn.SetBatches(revision.Has(protocol.Batches))
	s.mu.Unlock()
	backend.Restore(s, k.Kept, called)
	return nil
}

// persist saves the session, if Options.Persist is set, after a request that has changed the result
// of Keep.
func (s *Session) persist(ctx context.Context, method string) {
	if s.opts.Persist == nil {
		return
	}
	switch method {
	case protocol.MethodSetLevel, protocol.MethodResourcesSubscribe, protocol.MethodResourcesUnsubscribe, protocol.MethodInitialize:
		s.opts.Persist(ctx)
	}
}
