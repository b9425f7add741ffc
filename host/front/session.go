// Package front holds MCP sessions with clients, over any transport, and the
// stdio transport. Package streamable is the HTTP transport.
//
//	session.go  one session: life cycle, incoming messages
//	flight.go   requests of the client in flight
//	begin.go    requests that no goroutine waits for
//	ask.go      requests to the client
//	methods.go  what a session answers itself
//	batch.go    JSON-RPC batches of revision 2025-03-26
//	stream.go   where messages to the client go
//	stdio.go    the stdio transport
//
// A request is registered as in flight before the next message is read, so that
// a notifications/cancelled right behind it finds it. Each stream to a client has
// one writer, and progress is handed to it before the result that follows.
package front

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Backend is what sessions show to clients.
type Backend interface {
	// Welcome begins the session s with the answer to its initialize request.
	// The error is an *wire.RPCError, or the cause of ctx.
	Welcome(ctx context.Context, s route.Session) (route.Welcome, error)
	// Handle answers every request but initialize and ping.
	Handle(ctx context.Context, call route.Call) wire.Reply
	// Notified takes every notification but those about a single request. It
	// is called in the order of the stream and holds it up.
	Notified(s route.Session, method string, params []byte)
	// Left says that a session has ended for which Welcome was called, also if
	// that failed. None of its requests is in flight any more, unless it had to
	// be given up.
	Left(s route.Session)
}

// Beginner is a Backend that can do without a goroutine for some requests; see
// route.Router.Begin.
type Beginner interface {
	Begin(call route.Call, to route.Landing) (cancel func(cause error), ok bool)
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

// Session is a session with one client. It implements route.Session.
type Session struct {
	id     string // for records
	opts   Options
	begins Beginner        // the Backend; nil if it is none
	main   Stream          // for what belongs to no request in flight
	ctx    context.Context // of the session; ends with a cause
	end    context.CancelCauseFunc

	crew     crew           // runs requests
	workers  sync.WaitGroup // one per request in flight
	notifier sync.WaitGroup // notifyChanges
	changed  chan struct{}  // holds a token while due has something new

	mu       sync.Mutex // guards what follows
	inFlight map[string]*request
	asks     map[int64]*ask
	lastAsk  int64
	tasks    []*ask // answered with a task that may still report progress
	client   client
	closed   bool   // no request is taken on any more
	begun    bool   // the backend has heard of the session
	params   []byte // of initialize
	revision protocol.Revision
	listed   map[wire.Surface]bool // lists that the client has seen
	due      map[wire.Surface]bool // changes to tell
}

// client is the state of the handshake.
type client int

const (
	connected client = iota
	initialized
	operating // notifications/initialized has come
)

// NewSession makes a session whose own messages go to main. It ends with ctx.
// Whoever makes it feeds it (Receive) and must Close it.
func NewSession(ctx context.Context, main Stream, opts Options) *Session {
	s := &Session{
		id: rand.Text()[:16], opts: opts, main: main,
		inFlight: map[string]*request{}, asks: map[int64]*ask{},
		listed: map[wire.Surface]bool{}, due: map[wire.Surface]bool{}, changed: make(chan struct{}, 1),
	}
	s.begins, _ = opts.Backend.(Beginner)
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.crew = crew{keep: opts.KeepWorkers, ctx: s.ctx, next: make(chan *request)}
	s.notifier.Go(s.notifyChanges)
	return s
}

// Done is closed when the session has ended; then Close waits for what is left
// of its work.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Err is why the session has ended; nil while it has not.
func (s *Session) Err() error { return context.Cause(s.ctx) }

// ID implements route.Session.
func (s *Session) ID() string { return s.id }

// Changed implements route.Session. A client that has neither finished its
// handshake nor seen the list knows of none that could be another.
func (s *Session) Changed(surface wire.Surface) {
	s.mu.Lock()
	tell := s.client == operating || s.listed[surface]
	if tell {
		s.due[surface] = true
	}
	s.mu.Unlock()
	if !tell {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default: // it is awake already
	}
}

func (s *Session) notifyChanges() {
	for {
		select {
		case <-s.changed:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		due := s.due
		s.due = map[wire.Surface]bool{}
		s.mu.Unlock()
		if due[wire.Templates] { // one notification for both
			due[wire.Resources] = true
		}
		for _, surface := range wire.Surfaces {
			if due[surface] && surface != wire.Templates {
				s.Notify(surface.ChangedMethod(), nil)
			}
		}
	}
}

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
	s.write(s.main, wire.Notification(method, params))
}

// write takes a message to the client, on the session's own stream where the
// one it belonged to has been closed meanwhile.
func (s *Session) write(to Stream, msg []byte) {
	err := to.Write(msg)
	if errors.Is(err, ErrStreamClosed) && to != s.main {
		to, err = s.main, s.main.Write(msg)
	}
	s.written(to, err)
}

// written handles what came of writing to a stream.
func (s *Session) written(to Stream, err error) {
	switch {
	case err == nil:
	case to == s.main:
		s.end(errors.Join(wire.ErrClosed, err)) // nobody reads any more
	default:
		s.opts.Log.Debug("message to a broken stream dropped", "err", err)
	}
}

// Receive handles one message of the client, or a batch of them. It returns as
// soon as the requests in it are registered; their answers, and all that
// belongs to them, go to out. waits tells whether there is or was anything to
// answer: then out is closed with or after the last of it, perhaps before
// Receive returns. Parts of raw are kept.
func (s *Session) Receive(raw []byte, out Stream) (waits bool) {
	if s.IsBatch(raw) {
		return s.receiveBatch(raw, out)
	}
	msg, err := wire.Parse(raw)
	return s.receive(msg, err, out, nil)
}

// answer takes the reply to the request with the raw id to the client, on out
// unless it is one of a batch; once for each message that wants an answer. The
// zero Reply says that there is none, after all.
func (s *Session) answer(out Stream, b *batch, id []byte, reply wire.Reply) {
	if b != nil {
		b.answer(id, reply)
		return
	}
	s.written(out, out.Close(s.response(id, reply)))
}

// response is the last message about a request; nil for none. A large one counts
// until it is written.
func (s *Session) response(id []byte, reply wire.Reply) []byte {
	if reply.Result == nil && reply.Error == nil {
		return nil
	}
	msg := wire.Response(id, reply)
	s.opts.Budget.Count(msg)
	return msg
}

// ReceiveMessage is Receive for one message that the transport has parsed, with
// the results of wire.Parse. out may be nil if the message wants no answer.
func (s *Session) ReceiveMessage(msg wire.Message, err error, out Stream) (waits bool) {
	return s.receive(msg, err, out, nil)
}

// receive handles one message, of a batch if b is not nil. msg and err are the
// results of wire.Parse.
func (s *Session) receive(msg wire.Message, err error, out Stream, b *batch) (waits bool) {
	switch {
	case err != nil:
		return s.malformed(msg, err, out, b)
	case msg.IsRequest():
		s.request(msg, out, b)
		return true
	case msg.IsNotification():
		s.notification(msg)
	default:
		s.answered(msg)
	}
	return false
}

// malformed is receive for what is no message.
func (s *Session) malformed(msg wire.Message, err error, out Stream, b *batch) (waits bool) {
	bad := &wire.RPCError{Code: wire.CodeInternal, Message: err.Error()}
	errors.As(err, &bad) // it always is
	switch {
	case msg.IsNotification() && bad.Code == wire.CodeInvalidParams:
		s.opts.Log.Warn("notification of the client refused", "method", msg.Method, "err", err)
		return false
	case !WantsAnswer(msg, err):
		s.opts.Log.Warn("client sent a malformed response", "err", err)
		s.answeredBadly(msg.ID, bad)
		return false
	}
	s.answer(out, b, msg.ID, wire.Reply{Error: bad.Raw()})
	return true
}

// WantsAnswer tells whether a message must be answered. msg and err are the results
// of wire.Parse. A malformed response is not answered, nor is a notification with
// invalid params.
func WantsAnswer(msg wire.Message, err error) bool {
	var bad *wire.RPCError
	switch {
	case err == nil:
		return msg.IsRequest()
	case errors.As(err, &bad) && bad.Code == wire.CodeInvalidParams:
		return msg.IsRequest()
	}
	return msg.Result == nil && msg.Error == nil
}

// Reject answers a message that could not be read, on out.
func (s *Session) Reject(err *wire.RPCError, out Stream) {
	s.answer(out, nil, nil, wire.Reply{Error: err.Raw()})
}

// End ends the session: the contexts of its requests in flight end with cause.
// Their answers, if they have any, are still written.
func (s *Session) End(cause error) { s.end(cause) }

// Close ends the session and waits for its work. The error is ErrStalled when
// some of it had to be left behind.
func (s *Session) Close() error {
	s.end(wire.ErrClosed)
	s.mu.Lock()
	s.closed = true
	begun := s.begun
	s.mu.Unlock()
	s.endBegun()
	stalled := !waitFor(&s.workers, stallTime)
	stalled = !waitFor(&s.notifier, stallTime) || stalled
	stalled = !waitFor(&s.crew.all, stallTime) || stalled
	if begun {
		s.opts.Backend.Left(s)
	}
	if stalled {
		return ErrStalled
	}
	return nil
}

// waitFor tells whether g was done in time.
func waitFor(g *sync.WaitGroup, most time.Duration) bool {
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// validToken tells whether raw is a progress token: a string or a number.
func validToken(raw []byte) bool {
	if !json.Valid(raw) {
		return false
	}
	switch raw[0] {
	case '{', '[', 'n', 't', 'f':
		return false
	}
	return true
}
