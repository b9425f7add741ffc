package rpc

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Bounds of what is remembered of calls that are over.
const (
	// maxAbandoned bounds the cancelled calls whose late answers are told from
	// stray ones. It matters for the log, and for wire.Call.Late.
	maxAbandoned = 4096
	// maxLingering bounds the cancelled calls that still own messages of the peer.
	maxLingering = 256
	// maxTasks bounds the tasks whose progress is still passed on. Beyond it the
	// oldest one loses its token.
	maxTasks = 1024
	// lingerTime is how long a cancelled call still owns messages of the peer: it
	// goes on talking until it has noticed, and what it says must not go to
	// whoever called next.
	lingerTime = 5 * time.Second
)

// state is everything in flight on a connection. It is guarded by Conn.mu and
// changed by its methods only, which are in this file; those for time limits are
// in limit.go.
//
// Invariants:
//
//  1. A call is in calls from its registration until exactly one of these takes
//     it out: its answer, its failure, its cancellation, the end. Whoever takes
//     it out concludes it, so every call has exactly one outcome.
//  2. While a progress callback of a call runs (busy), its outcome waits in
//     call.outcome, and the goroutine of the callback concludes it. So no
//     progress comes after the outcome.
//  3. An id is in at most one of calls and abandoned. After the end calls is
//     empty and stays so.
//  4. tasks holds the calls that were answered with a task that goes on, the
//     oldest first, and ongoing the same by id.
//  5. A request of the peer is in requests from its arrival until its answer or
//     its cancellation, so no id is there twice; open counts it until Reply,
//     which also those get that were cancelled. len(requests) <= open.
//  6. The timer is set (waking) whenever a call in calls has a limit, for the
//     time when the first of them is due or earlier.
type state struct {
	ids       ids
	calls     map[int64]*call        // in flight
	abandoned map[int64]func(string) // cancelled calls whose answer may still come: wire.Call.Late
	lingering []lingering            // oldest first
	tasks     []*call
	ongoing   map[int64]*call

	requests map[string]*Request // in flight, by wire.IDKey
	open     int                 // requests without a Reply yet

	end    error     // why the connection has ended; nil before
	closed bool      // no request of the peer is taken any more
	stop   func()    // stops watching the context of New; nil for none
	waking bool      // the timer is set, or its function is about to run
	wakeAt time.Time // when it fires
}

// lingering is the owner of a call that was cancelled a moment ago.
type lingering struct {
	id    int64
	owner any
	until time.Time
}

func newState(serial bool) state {
	s := state{
		calls: map[int64]*call{}, abandoned: map[int64]func(string){},
		ongoing: map[int64]*call{}, requests: map[string]*Request{},
	}
	if !serial {
		s.ids = newIDs()
	}
	return s
}

// register puts a call in flight. The error is that of the end.
func (s *state) register(p *call) error {
	if s.end == nil {
		s.calls[p.id] = p
	}
	return s.end
}

// take takes a call out of flight; nil if it is not. The caller concludes it.
func (s *state) take(id int64) *call {
	p := s.calls[id]
	delete(s.calls, id)
	return p
}

// takeOn is take for all calls whose requests went out on a stream.
func (s *state) takeOn(on Stream) (calls []*call) {
	for id, p := range s.calls {
		if p.stream == on {
			delete(s.calls, id)
			calls = append(calls, p)
		}
	}
	return calls
}

// abandon is take for a call that is cancelled: its answer may still come.
func (s *state) abandon(id int64, now time.Time) *call {
	p := s.take(id)
	if p == nil {
		return nil
	}
	if len(s.abandoned) >= maxAbandoned {
		clear(s.abandoned)
	}
	s.abandoned[id] = p.late
	if p.owner != nil {
		s.linger(lingering{id, p.owner, now.Add(lingerTime)}, now)
	}
	return p
}

func (s *state) linger(l lingering, now time.Time) {
	s.lingering = expire(s.lingering, now)
	if len(s.lingering) == maxLingering {
		s.lingering = slices.Delete(s.lingering, 0, 1)
	}
	s.lingering = append(s.lingering, l)
}

// expire drops those whose time has come.
func expire(l []lingering, now time.Time) []lingering {
	n := slices.IndexFunc(l, func(o lingering) bool { return now.Before(o.until) })
	if n < 0 {
		n = len(l)
	}
	return slices.Delete(l, 0, n)
}

// startWaiting notes that a call waits for a stream that has no room; stop ends
// that. It is false when the call is over.
func (s *state) startWaiting(p *call, stop context.CancelCauseFunc) bool {
	if s.calls[p.id] == nil {
		return false
	}
	p.waits = stop
	return true
}

// cancelWaiting tells whether a call that is cancelled still waits for its stream,
// and keeps the cause then.
func (s *state) cancelWaiting(p *call, cause error) bool {
	if p.waits == nil {
		return false
	}
	p.cause = cause
	return true
}

// stopWaiting notes that the stream has taken a request over, or will not. It
// returns why the call was cancelled meanwhile, nil if it was not, and whether it
// was over. A call that was not sent is taken out of flight.
func (s *state) stopWaiting(p *call, sent bool) (cause error, over bool) {
	p.waits = nil
	if sent {
		return p.cause, false
	}
	s.acknowledge(p.id) // no answer will come
	return p.cause, s.take(p.id) == nil
}

// move has the request of a call sent on another stream. It is false when that is
// the same one, or the call is over.
func (s *state) move(p *call, to Stream) bool {
	if p.stream == to || s.calls[p.id] == nil {
		return false
	}
	p.stream = to
	return true
}

// acknowledge forgets a cancelled call whose late answer has come, or that has
// never left. It tells whether there was one, and what its caller wants to know.
func (s *state) acknowledge(id int64) (late func(string), ok bool) {
	if late, ok = s.abandoned[id]; ok {
		delete(s.abandoned, id)
		s.lingering = slices.DeleteFunc(s.lingering, func(o lingering) bool { return o.id == id })
	}
	return late, ok
}

// settle tells whether the outcome of a call that was taken can be delivered now.
// While a progress callback of it runs, the outcome waits for that.
func (s *state) settle(p *call, o outcome) (now bool) {
	p.outcome, p.deferred = o, p.busy
	return !p.busy
}

// beginProgress finds the call, or the task, that progress is for, and waits for
// its turn: callbacks of one call run one at a time. It returns nil if nobody
// wants it; late is for a call that was cancelled. The caller must endProgress.
func (s *state) beginProgress(id int64, turn *sync.Cond) (p *call, late func(string)) {
	for {
		p = s.calls[id]
		if p == nil {
			p = s.ongoing[id]
		}
		if p == nil || p.progress == nil {
			return nil, s.abandoned[id]
		}
		if !p.busy {
			p.busy = true
			return p, nil
		}
		turn.Wait() // p may be over then, and even be another call
	}
}

// endProgress is told that a progress callback has returned, which restarts the
// idle limit. It tells whether the caller has to deliver the outcome.
func (s *state) endProgress(p *call, now time.Time) (deliver bool) {
	p.busy = false
	p.restart(now)
	deliver, p.deferred = p.deferred, false
	return deliver
}

// owners are the owners of all calls that a message of the peer may belong to:
// first those that were cancelled a moment ago, then those in flight, oldest
// first.
func (s *state) owners(now time.Time) []any {
	s.lingering = expire(s.lingering, now)
	order := make([]int64, 0, len(s.calls))
	for id, p := range s.calls {
		if p.owner != nil {
			order = append(order, s.ids.nth(id))
		}
	}
	slices.Sort(order)
	owners := make([]any, 0, len(s.lingering)+len(order))
	for _, o := range s.lingering {
		owners = append(owners, o.owner)
	}
	for _, nth := range order {
		owners = append(owners, s.calls[s.ids.id(nth)].owner)
	}
	return owners
}

// keepTask keeps the progress of a call that was answered with a task.
func (s *state) keepTask(p *call, task string) {
	p.task = task
	if s.end != nil {
		return
	}
	if len(s.tasks) == maxTasks {
		delete(s.ongoing, s.tasks[0].id)
		s.tasks = slices.Delete(s.tasks, 0, 1)
	}
	s.tasks = append(s.tasks, p)
	s.ongoing[p.id] = p
}

// endTask forgets the calls that were answered with a task.
func (s *state) endTask(task string) {
	s.tasks = slices.DeleteFunc(s.tasks, func(p *call) bool {
		if p.task == task {
			delete(s.ongoing, p.id)
			return true
		}
		return false
	})
}

// admit puts a request of the peer in flight, unless it is refused.
func (s *state) admit(r *Request, most int) *wire.RPCError {
	switch {
	case s.closed:
		return wire.Errorf(wire.CodeInternal, "request %s refused: the session has ended", clip(string(r.ID)))
	case s.requests[r.key] != nil:
		// With its id the answer would seem to belong to the other request.
		r.ID = nil
		return wire.Errorf(wire.CodeInvalidRequest, "invalid request: id %s is in use by a request in flight", clip(r.key))
	case s.open >= most:
		return wire.Errorf(wire.CodeInternal, "too many requests in flight (at most %d)", most)
	}
	s.requests[r.key] = r
	s.open++
	return nil
}

// answer takes a request of the peer out of flight. drop is set when it was
// cancelled: then it must not be answered (revision 2025-11-25,
// basic/utilities/cancellation). It is not ok when it has had its Reply.
func (s *state) answer(r *Request, after phase) (drop, ok bool) {
	if r.replied {
		return false, false
	}
	r.replied = true
	s.open--
	if r.phase == dropped {
		return true, true
	}
	delete(s.requests, r.key)
	r.phase = after
	return false, true
}

// drop cancels the requests of the peer that which holds for, and returns what
// is to be called for that.
func (s *state) drop(cause error, which func(r *Request) bool) (cancels []func(error)) {
	for key, r := range s.requests {
		if !which(r) {
			continue
		}
		delete(s.requests, key)
		r.phase, r.cause = dropped, cause
		if r.cancel != nil {
			cancels = append(cancels, r.cancel)
		}
	}
	return cancels
}

// onCancel sets what cancels the work of a request; replace tells whether that
// takes the place of what was set before. cause is not nil if it is to be called
// at once.
func (s *state) onCancel(r *Request, cancel func(error), replace bool) (cause error) {
	if replace || r.cancel == nil {
		r.cancel = cancel
	}
	if r.cause != nil {
		return r.cause
	}
	return s.end
}

// close has no request of the peer taken any more. It returns what stops watching
// the context of New; nil for nothing.
func (s *state) close() (stop func()) {
	s.closed = true
	stop, s.stop = s.stop, nil
	return stop
}

// finish ends everything: it returns the calls in flight, for the caller to
// conclude, and what cancels the peer's requests. It is not the first when the
// connection had ended before.
func (s *state) finish(err error) (calls map[int64]*call, cancels []func(error), first bool) {
	if s.end != nil {
		return nil, nil, false
	}
	s.end = err
	calls, s.calls = s.calls, map[int64]*call{}
	s.tasks, s.lingering = nil, nil
	clear(s.ongoing)
	clear(s.abandoned)
	for _, r := range s.requests {
		if r.cancel != nil {
			cancels = append(cancels, r.cancel)
		}
	}
	return calls, cancels, true
}

// call is a request of ours in flight. It is used again when it is over, unless
// it goes on as a task.
type call struct {
	id       int64
	method   string
	stream   Stream
	single   CallStream // stream, if it is one of this call alone
	progress func(params []byte)
	late     func(what string) // wire.Call.Late
	owner    any
	asksTask bool   // the answer may be a task that goes on
	params   []byte // of requests about tasks only

	// Exactly one of these gets the outcome: complete, if it is not nil, or result.
	complete wire.CompletionFunc
	result   chan outcome // made once, with room for one

	// Guarded by Conn.mu:
	limit    Limit
	latest   time.Time // when it must have ended; zero for never
	due      time.Time // when its limits are to be looked at; zero for never
	private  bool      // only its own stream may bring the answer
	busy     bool      // a progress callback runs
	deferred bool      // outcome waits for it to return
	outcome  outcome
	task     string                  // that was the answer; "" for none
	waits    context.CancelCauseFunc // set while it waits for a stream without room
	cause    error                   // why it was cancelled meanwhile
}

// outcome is what a call has come to.
type outcome struct {
	reply  wire.Reply
	err    error
	unsent bool // the peer has surely not seen the request
}
