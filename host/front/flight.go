package front

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// maxInFlight bounds the requests of one session that are worked on at once.
const maxInFlight = 4096

// request is a request of the client in flight. It implements route.Origin.
type request struct {
	session *Session
	out     Stream
	batch   *batch // that it came in; nil for none
	msg     wire.Message
	work    work
	ctx     context.Context // of work; ends with run
	end     context.CancelCauseFunc
	key     string // in Session.inFlight
	reports bool   // progress to the client

	// Guarded by Session.mu:
	phase  phase
	cause  error             // why it was dropped
	cancel func(cause error) // what of it is under way; nil before there is
}

// phase is where a request is in its life.
type phase int

const (
	working  phase = iota
	answered       // messages that still belong to it go to the session's own stream
	ongoing        // the same, and the answer was a task that may report progress
	dropped        // cancelled: the client has forgotten it
)

// ErrClientGone is why requests are cancelled whose client has disconnected.
var ErrClientGone = fmt.Errorf("the client has gone away: %w", wire.ErrClosed)

// request registers msg and starts its work.
func (s *Session) request(msg wire.Message, out Stream, b *batch) {
	work, reply := s.lookup(msg)
	if work == nil {
		s.answer(out, b, msg.ID, reply)
		return
	}
	req := &request{session: s, out: out, batch: b, msg: msg, work: work}
	if id, bad := s.register(msg.ID, req); bad != nil {
		s.answer(out, b, id, wire.Reply{Error: bad.Raw()})
		return
	}
	if !s.begin(req) {
		req.start()
	}
}

// start has the work of a request done on a goroutine.
func (r *request) start() {
	s := r.session
	r.ctx, r.end = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	r.cancel = r.end
	gone, cause := r.phase == dropped, r.cause
	s.mu.Unlock()
	if gone {
		r.end(cause)
	}
	s.crew.start(r)
}

// run does the work of a request and answers it.
func (r *request) run() {
	s := r.session
	defer s.workers.Done()
	defer r.end(nil)
	reply := r.work(s, r.ctx, r)
	if reply.Result == nil && reply.Error == nil {
		reply = fail(wire.CodeInternal, "%s ended without an answer: %v", r.msg.Method, context.Cause(r.ctx))
	}
	if s.finish(r, reply) {
		s.answer(r.out, r.batch, r.msg.ID, reply)
	} else {
		s.answer(r.out, r.batch, nil, wire.Reply{})
	}
}

// crew runs requests. It keeps some of its goroutines for the next ones: their
// stacks have grown already.
type crew struct {
	keep int             // at most
	ctx  context.Context // when it ends, none is kept any more
	next chan *request   // taken by those that are kept
	idle atomic.Int32
	all  sync.WaitGroup
}

// start runs a request.
func (c *crew) start(req *request) {
	select {
	case c.next <- req:
	default:
		c.all.Go(func() { c.run(req) })
	}
}

func (c *crew) run(req *request) {
	for {
		req.run()
		if int(c.idle.Add(1)) > c.keep {
			c.idle.Add(-1)
			return
		}
		select {
		case req = <-c.next:
			c.idle.Add(-1)
		case <-c.ctx.Done():
			return
		}
	}
}

// register puts a request in flight and counts it as a worker. An error is to
// be sent with the id returned.
func (s *Session) register(id []byte, req *request) ([]byte, *wire.RPCError) {
	req.key = wire.IDKey(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return id, wire.Errorf(wire.CodeInternal, "request %s refused: the session has ended", id)
	case s.inFlight[req.key] != nil:
		// With its id the answer would seem to belong to the other request.
		return nil, wire.Errorf(wire.CodeInvalidRequest, "invalid request: id %s is in use by a request in flight", id)
	case len(s.inFlight) >= maxInFlight:
		return id, wire.Errorf(wire.CodeInternal, "request %s refused: %d requests are in flight (wait for answers)", id, maxInFlight)
	}
	s.inFlight[req.key] = req
	s.workers.Add(1) // under the lock: none is added once Close waits
	return nil, nil
}

// finish takes a request out of flight. It is false when the request was
// cancelled before: then it must not be answered (revision 2025-11-25,
// basic/utilities/cancellation).
func (s *Session) finish(req *request, reply wire.Reply) bool {
	after := answered
	if req.reports {
		if _, ok := taskOf(reply.Result); ok {
			after = ongoing
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[req.key] != req {
		return false // perhaps the id is in use again by now
	}
	delete(s.inFlight, req.key)
	req.phase = after
	return true
}

// taskOf is the id of the task that a result stands for, if it is a
// CreateTaskResult (2025-11-25, basic/utilities/tasks).
func taskOf(result []byte) (id string, ok bool) {
	if !bytes.Contains(result, []byte(`"taskId"`)) { // most are not, and may be large
		return "", false
	}
	id, ok = wire.GetString(result, "task", "taskId")
	return id, ok && id != ""
}

// cancelled takes the request that params names out of flight.
func (s *Session) cancelled(params []byte) {
	id, ok := wire.Get(params, "requestId")
	if !ok {
		return
	}
	key := wire.IDKey(id)
	// initialize must not be cancelled (basic/lifecycle).
	s.drop(&wire.CancelledError{Params: params}, func(r *request) bool {
		return r.key == key && r.msg.Method != protocol.MethodInitialize
	})
}

// Abandon cancels the requests whose messages go to out, without an answer, and
// gives up those to the client that went there: the client has gone away from
// it.
func (s *Session) Abandon(out Stream) {
	s.drop(ErrClientGone, func(req *request) bool { return req.out == out })
	s.abandonAsks(out)
}

// hangUp handles the end of input: calls are cancelled without an answer,
// short requests (a listing) still get theirs.
func (s *Session) hangUp() {
	s.drop(ErrClientGone, func(req *request) bool { return req.msg.Method == protocol.MethodToolsCall })
}

// drop cancels requests in flight.
func (s *Session) drop(cause error, which func(req *request) bool) {
	s.mu.Lock()
	var cancels []func(error)
	for key, req := range s.inFlight {
		if which(req) {
			delete(s.inFlight, key)
			req.phase, req.cause = dropped, cause
			if req.cancel != nil {
				cancels = append(cancels, req.cancel)
			}
		}
	}
	s.mu.Unlock()
	for _, cancel := range cancels {
		cancel(cause)
	}
}

// InFlight is the number of requests that are worked on.
func (s *Session) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inFlight)
}

// stream is where what belongs to the request goes now.
func (r *request) stream() Stream {
	if r.at() == working {
		return r.out
	}
	return r.session.main
}

func (r *request) at() phase {
	r.session.mu.Lock()
	defer r.session.mu.Unlock()
	return r.phase
}

// Session implements route.Origin.
func (r *request) Session() route.Session { return r.session }

// Notify implements route.Origin.
func (r *request) Notify(method string, params []byte) {
	r.session.write(r.stream(), wire.Notification(method, params))
}

// Ask implements route.Origin.
func (r *request) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return r.session.ask(ctx, r.stream(), call)
}

// progress is the function that takes the request's progress to the client,
// nil if the client gave no token. After a cancellation or an answer the client
// has forgotten the token; after an answer that is a task it is still good.
func (r *request) progress(params []byte) func([]byte) {
	token, ok := wire.Get(params, "_meta", "progressToken")
	if !ok || !validToken(token) {
		return nil
	}
	r.reports = true
	return func(params []byte) {
		params, err := wire.Set(params, token, "progressToken")
		if err != nil {
			r.session.opts.Log.Warn("malformed progress notification", "err", err)
			return
		}
		r.report(wire.Notification(protocol.NotificationProgress, params))
	}
}

// report writes progress where the request is now.
func (r *request) report(msg []byte) {
	s := r.session
	if r.at() == working {
		err := r.out.Write(msg)
		if !errors.Is(err, ErrStreamClosed) {
			s.written(r.out, err)
			return
		}
	}
	if r.at() == ongoing {
		s.write(s.main, msg)
	}
}
