// Package front holds sessions with clients.
//
//	session.go  one session: life cycle, reading, requests in flight
//	methods.go  what a session answers
//	batch.go    JSON-RPC batches of revision 2025-03-26
//	stdio.go    the stdio front end
//
// A request is registered as in flight before the next message is read, so
// that a notifications/cancelled right behind it finds it. All writes of a
// session go through one writer, synchronously: progress is on the stream
// before the result that follows it.
package front

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Backend is what sessions show to clients.
type Backend interface {
	// ListTools returns one page of raw tool definitions. The error is an
	// *wire.RPCError.
	ListTools(ctx context.Context, cursor string) (tools [][]byte, next string, err error)
	// CallTool answers a tools/call.
	CallTool(ctx context.Context, call route.Call) wire.Reply
}

// Options of a session.
type Options struct {
	Backend       Backend
	Name, Version string // of this server
	Instructions  string
	MaxMessage    int // bytes; 0: wire.DefaultMaxMessage
	Log           *slog.Logger
}

// maxInFlight bounds the requests of one session that are worked on at once.
const maxInFlight = 4096

// Session is a session with one client.
type Session struct {
	opts Options
	out  *wire.Writer
	ctx  context.Context // of the session; ends with a cause
	end  context.CancelCauseFunc

	workers  sync.WaitGroup // one per request in flight
	notifier sync.WaitGroup // notifyChanges
	changed  chan struct{}  // holds a token while a list_changed is due

	mu       sync.Mutex // guards what follows
	inFlight map[string]*request
	client   client
	listed   bool // the client has seen a tool list
	batches  bool // the negotiated revision knows JSON-RPC batches
}

type request struct {
	cancel context.CancelCauseFunc
	// drain is set for requests that EOF lets finish.
	drain bool
}

// client is the state of the handshake.
type client int

const (
	connected client = iota
	initialized
	operating // notifications/initialized has come
)

// NewSession makes a session that writes to w. The session ends with ctx.
func NewSession(ctx context.Context, w io.Writer, opts Options) *Session {
	s := &Session{opts: opts, out: wire.NewWriter(w), inFlight: map[string]*request{}, changed: make(chan struct{}, 1)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.notifier.Go(s.notifyChanges)
	return s
}

// ToolsChanged tells the client that the tool list is another; not before it
// has finished its handshake or listed tools, since until then it knows of
// none. It does not block; several calls may become one notification.
func (s *Session) ToolsChanged() {
	s.mu.Lock()
	due := s.client == operating || s.listed
	s.mu.Unlock()
	if !due {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default: // one is due already
	}
}

func (s *Session) notifyChanges() {
	for {
		select {
		case <-s.changed:
			s.write(wire.Notification("notifications/tools/list_changed", nil))
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Session) write(msg []byte) {
	if err := s.out.Write(msg); err != nil {
		s.end(errors.Join(wire.ErrClosed, err)) // nobody reads any more
	}
}

// read handles messages from r until it ends.
func (s *Session) read(r io.Reader) error {
	in := wire.NewReader(r, s.opts.MaxMessage)
	for {
		raw, err := in.Read()
		var large *wire.TooLargeError
		switch {
		case errors.As(err, &large):
			s.reply(nil, wire.Reply{Error: wire.Errorf(wire.CodeInvalidRequest, "invalid request: %v", err).Raw()})
		case err != nil:
			return err
		default:
			s.receive(raw)
		}
	}
}

// receive handles one message or batch. It returns as soon as requests in it
// are registered.
func (s *Session) receive(raw []byte) {
	s.mu.Lock()
	batches := s.batches
	s.mu.Unlock()
	if batches {
		if items, ok, err := wire.Split(raw); ok {
			s.receiveBatch(items, err)
			return
		}
	}
	s.receiveOne(raw, s.reply)
}

// answer takes the reply to the request with the raw id to the client. The
// zero Reply says that the message gets no answer.
type answer func(id []byte, reply wire.Reply)

func (s *Session) reply(id []byte, reply wire.Reply) {
	if reply.Result != nil || reply.Error != nil {
		s.write(wire.Response(id, reply))
	}
}

func (s *Session) receiveOne(raw []byte, answer answer) {
	msg, err := wire.Parse(raw)
	var bad *wire.RPCError
	switch {
	case errors.As(err, &bad):
		if msg.Result != nil || msg.Error != nil {
			s.opts.Log.Warn("client sent a malformed response", "err", err)
			answer(nil, wire.Reply{})
			return
		}
		answer(msg.ID, wire.Reply{Error: bad.Raw()})
	case msg.IsRequest():
		s.request(msg, answer)
	case msg.IsNotification():
		s.notification(msg)
	default:
		s.opts.Log.Debug("client answered a request we did not make", "id", string(msg.ID))
	}
}

// request registers msg and starts its work.
func (s *Session) request(msg wire.Message, answer answer) {
	if reply, ok := s.immediate(msg); ok {
		answer(msg.ID, reply)
		return
	}
	work, reply := s.lookup(msg)
	if work == nil {
		answer(msg.ID, reply)
		return
	}
	key := wire.IDKey(msg.ID)
	ctx, cancel := context.WithCancelCause(s.ctx)
	req := &request{cancel: cancel, drain: msg.Method != "tools/call"}
	s.mu.Lock()
	_, taken := s.inFlight[key]
	full := len(s.inFlight) >= maxInFlight
	if !taken && !full {
		s.inFlight[key] = req
	}
	s.mu.Unlock()
	if taken || full {
		cancel(nil)
		// With its id the answer would seem to belong to the other request.
		answer(nil, wire.Reply{Error: refusal(msg.ID, taken).Raw()})
		return
	}
	s.workers.Go(func() {
		defer cancel(nil)
		reply := work(ctx, msg)
		if s.finish(key, req) {
			answer(msg.ID, reply)
		} else {
			answer(nil, wire.Reply{})
		}
	})
}

func refusal(id []byte, taken bool) *wire.RPCError {
	if taken {
		return wire.Errorf(wire.CodeInvalidRequest, "invalid request: id %s is in use by a request in flight", id)
	}
	return wire.Errorf(wire.CodeInternal, "request %s refused: %d requests are in flight (wait for answers)", id, maxInFlight)
}

// finish takes a request out of flight. It is false when the request was
// cancelled before: then it must not be answered (revision 2025-11-25,
// basic/utilities/cancellation).
func (s *Session) finish(key string, req *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[key] != req {
		return false // perhaps the id is in use again by now
	}
	delete(s.inFlight, key)
	return true
}

// cancelled takes the request that params names out of flight.
func (s *Session) cancelled(params []byte) {
	id, ok := wire.Get(params, "requestId")
	if !ok {
		return
	}
	s.mu.Lock()
	req := s.inFlight[wire.IDKey(id)]
	delete(s.inFlight, wire.IDKey(id))
	s.mu.Unlock()
	if req != nil {
		req.cancel(&wire.CancelledError{Params: params})
	}
}

// hangUp handles the end of input: calls are cancelled without an answer,
// short requests (a listing) still get theirs.
func (s *Session) hangUp() {
	s.mu.Lock()
	var calls []*request
	for key, req := range s.inFlight {
		if !req.drain {
			calls = append(calls, req)
			delete(s.inFlight, key)
		}
	}
	s.mu.Unlock()
	for _, req := range calls {
		req.cancel(wire.ErrClosed)
	}
}

// progress is the function that takes a call's progress to the client, nil if
// the client gave no token.
func (s *Session) progress(ctx context.Context, params []byte) func([]byte) {
	token, ok := wire.Get(params, "_meta", "progressToken")
	if !ok || !json.Valid(token) || token[0] == '{' || token[0] == '[' || string(token) == "null" {
		return nil
	}
	return func(params []byte) {
		if ctx.Err() != nil {
			return // after a cancellation the client has forgotten the token
		}
		params, err := wire.Set(params, token, "progressToken")
		if err != nil {
			s.opts.Log.Warn("malformed progress notification", "err", err)
			return
		}
		s.write(wire.Notification("notifications/progress", params))
	}
}
