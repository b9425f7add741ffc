package rpc

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Bounds on what is remembered of calls that have ended.
const (
	// maxAbandoned bounds the cancelled calls whose late answers are distinguished
	// from stray ones. The distinction is for the log and for wire.Call.Late.
	maxAbandoned = 4096
	// maxLingering bounds the cancelled calls that still own messages of the peer.
	maxLingering = 256
	// maxTasks bounds the tasks whose progress is still passed on. Beyond it the
	// oldest one loses its token.
	maxTasks = 1024
	// lingerTime is how long a cancelled call still owns messages of the peer. The
	// peer may send more for the call before it handles the cancellation, and that
	// must not be attributed to the next caller.
	lingerTime = 5 * time.Second
)

// state is everything in flight on a connection. It is guarded by Conn.mu and
// changed by its methods only, which are in this file; those for time limits are
// in limit.go, and those about owners in owners.go.
//
// Invariants:
//
//  1. A call is in calls from its registration until exactly one of these removes
//     it: its answer, its failure, its cancellation, the end of the connection.
//     Whatever removes it concludes it, so every call has exactly one outcome. Only
//     Submit removes a call without an outcome, if its stream has no room.
//  2. While a progress callback of a call runs (busy), the outcome is kept in
//     call.outcome, and the goroutine of the callback delivers it. So no progress
//     comes after the outcome.
//  3. An id is in at most one of calls and abandoned. After the end of the
//     connection, calls stays empty.
//  4. tasks holds the calls that were answered with a task that goes on, the
//     oldest first; ongoing holds the same calls by id.
//  5. A request of the peer is in requests from its arrival until its answer or
//     its cancellation, so no id is there twice. open counts it until Reply, which
//     is called for cancelled requests too. len(requests) <= open.
//  6. The timer is set (timerSet) whenever a call in calls has a limit, for the
//     time when the first of them is due or earlier.
type state struct {
	ids       ids
	calls     map[int64]*call        // in flight
	abandoned map[int64]func(string) // cancelled calls whose answer may still come: wire.Call.Late
	lingering []lingering            // oldest first
	ended     chan struct{}          // closed when a call ends; nil while nobody waits for that
	tasks     []*call
	ongoing   map[int64]*call

	requests map[string]*Request // in flight, by wire.IDKey or by uniqueKey
	open     int                 // requests without a Reply yet
	keys     uint64              // how many keys uniqueKey has made

	end      error     // why the connection has ended; nil before
	closed   bool      // requests of the peer are refused
	stop     func()    // stops watching the context of New; nil for none
	timerSet bool      // the timer is set, or its function is about to run
	timerAt  time.Time // when it fires
}

// lingering is the owner of a call that was cancelled recently.
type lingering struct {
	id       int64
	owner    any
	group    any // of the call; see wire.Call.Group
	until    time.Time
	answered bool // late, so that the peer sends nothing more for it
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

// register adds a call to those in flight. The error is the one that the connection
// ended with.
func (s *state) register(p *call) error {
	if s.end == nil {
		s.calls[p.id] = p
	}
	return s.end
}

// take removes a call from those in flight and returns it, nil if it is not in
// flight. The caller concludes it.
func (s *state) take(id int64) *call {
	p := s.calls[id]
	delete(s.calls, id)
	s.tellEnded()
	return p
}

// takeOn is take for all calls that were made on a stream.
func (s *state) takeOn(on Stream) (calls []*call) {
	for id, p := range s.calls {
		if p.stream == on {
			delete(s.calls, id)
			calls = append(calls, p)
		}
	}
	s.tellEnded()
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
		s.linger(lingering{id: id, owner: p.owner, group: p.group, until: now.Add(lingerTime)}, now)
	}
	return p
}

func (s *state) linger(l lingering, now time.Time) {
	s.lingering = expire(s.lingering, now)
	if len(s.lingering) == maxLingering {
		at := oldestOfLargest(s.lingering)
		s.lingering = slices.Delete(s.lingering, at, at+1)
	}
	s.lingering = append(s.lingering, l)
}

// oldestOfLargest returns where the oldest element of the largest group is, so that a client
// that cancels many calls displaces only its own.
func oldestOfLargest(all []lingering) int {
	sizes := map[any]int{}
	for _, l := range all {
		sizes[l.group]++
	}
	most := 0
	for _, n := range sizes {
		most = max(most, n)
	}
	return slices.IndexFunc(all, func(l lingering) bool { return sizes[l.group] == most })
}

// expire removes the elements whose time has passed.
func expire(l []lingering, now time.Time) []lingering {
	n := slices.IndexFunc(l, func(o lingering) bool { return now.Before(o.until) })
	if n < 0 {
		n = len(l)
	}
	return slices.Delete(l, 0, n)
}

// startWaiting records that a call waits for room on its stream; stop ends the wait.
// It returns false if the call has ended.
func (s *state) startWaiting(p *call, stop context.CancelCauseFunc) bool {
	if s.calls[p.id] == nil {
		return false
	}
	p.stopSend = stop
	return true
}

// cancelWaiting reports whether a call that is cancelled still waits for its stream,
// and then keeps the cause.
func (s *state) cancelWaiting(p *call, cause error) bool {
	if p.stopSend == nil {
		return false
	}
	p.cause = cause
	return true
}

// stopWaiting records whether the stream has accepted a request. It returns why the
// call was cancelled in the meantime, nil if it was not, and whether it had ended. A
// call that was not sent is removed from those in flight.
func (s *state) stopWaiting(p *call, sent bool) (cause error, over bool) {
	p.stopSend = nil
	if sent {
		return p.cause, false
	}
	s.acknowledge(p.id) // no answer will come
	s.lingering = slices.DeleteFunc(s.lingering, func(o lingering) bool { return o.id == p.id })
	return p.cause, s.take(p.id) == nil
}

// move changes the stream of a call. It returns false if the stream is the same, or
// if the call has ended.
func (s *state) move(p *call, to Stream) bool {
	if p.stream == to || s.calls[p.id] == nil {
		return false
	}
	p.stream = to
	return true
}

// acknowledge forgets a cancelled call when its late answer has come, or if its
// request was never sent. It returns the call's wire.Call.Late, and whether there
// was such a call.
func (s *state) acknowledge(id int64) (late func(string), ok bool) {
	if late, ok = s.abandoned[id]; ok {
		delete(s.abandoned, id)
		for i := range s.lingering {
			if s.lingering[i].id == id {
				s.lingering[i].answered = true
			}
		}
		s.tellEnded()
	}
	return late, ok
}

// settle reports whether the outcome of a call can be delivered now. While a progress
// callback of the call runs, the outcome is deferred.
func (s *state) settle(p *call, o outcome) (now bool) {
	p.outcome, p.deferred = o, p.busy
	return !p.busy
}

// beginProgress finds the call or task that progress is for, and waits until no
// other callback of it runs. It returns nil if the progress is not wanted; late is
// that of a cancelled call. Otherwise the caller must call endProgress.
func (s *state) beginProgress(id int64, returned *sync.Cond) (p *call, late func(string)) {
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
		returned.Wait() // afterwards the call may have ended, and p may have been reused
	}
}

// endProgress records that a progress callback has returned, and restarts the idle
// limit. It reports whether the caller has to deliver the outcome.
func (s *state) endProgress(p *call, now time.Time) (deliver bool) {
	p.busy = false
	p.restart(now)
	deliver, p.deferred = p.deferred, false
	return deliver
}

// keepTask keeps the progress token of a call valid that was answered with a task.
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

// strip removes from a call that was answered with a task what is not needed for its progress.
func (s *state) strip(p *call) {
	p.complete, p.late, p.owner, p.group, p.outcome = nil, nil, nil, nil, outcome{}
}

// endTask forgets the calls that were answered with that task.
func (s *state) endTask(task string) {
	s.tasks = slices.DeleteFunc(s.tasks, func(p *call) bool {
		if p.task == task {
			delete(s.ongoing, p.id)
			return true
		}
		return false
	})
}

// uniqueKey returns a key that no other request has (Options.SharedIDs).
func (s *state) uniqueKey() string {
	s.keys++
	return strconv.FormatUint(s.keys, 10)
}

// admit adds a request of the peer to those in flight, unless it is refused.
func (s *state) admit(r *Request, most int) *wire.RPCError {
	switch {
	case s.closed:
		return wire.Errorf(wire.CodeInternal, "request %s refused: the session has ended", excerpt(string(r.ID)))
	case s.requests[r.key] != nil:
		bad := wire.Errorf(wire.CodeInvalidRequest, "invalid request: id %s is in use by a request in flight", excerpt(string(r.ID)))
		r.ID = nil // with the id, the answer would seem to be that of the other request
		return bad
	case s.open >= most:
		return wire.Errorf(wire.CodeInternal, "too many requests in flight (at most %d): wait for answers or cancel some, then send it again", most)
	}
	s.requests[r.key] = r
	s.open++
	return nil
}

// answer removes a request of the peer from those in flight. drop is set if it was
// cancelled and must not be answered (revision 2025-11-25,
// basic/utilities/cancellation). ok is false if it had been replied to before.
func (s *state) answer(r *Request, after phase) (drop, ok bool) {
	if r.replied {
		return false, false
	}
	r.replied = true
	s.open--
	if r.phase == dropped {
		r.cancel = nil
		return true, true
	}
	delete(s.requests, r.key)
	r.phase, r.cancel, r.key = after, nil, ""
	return false, true
}

// drop cancels the requests of the peer for which the function which returns true.
// It returns the functions to call for that.
func (s *state) drop(cause error, which func(r *Request) bool) (cancels []func(error)) {
	for key, r := range s.requests {
		if !which(r) {
			continue
		}
		delete(s.requests, key)
		r.phase, r.cause, r.key = dropped, cause, ""
		if r.cancel != nil {
			cancels = append(cancels, r.cancel)
		}
	}
	return cancels
}

// onCancel sets the function that cancels the work for a request. If one was set
// before, it is replaced only if replace is set. If cause is not nil, the function
// has to be called at once.
func (s *state) onCancel(r *Request, cancel func(error), replace bool) (cause error) {
	if !r.replied && (replace || r.cancel == nil) {
		r.cancel = cancel
	}
	if r.cause != nil {
		return r.cause
	}
	return s.end
}

// close makes admit refuse requests. It returns the function that stops watching the
// context of New, or nil.
func (s *state) close() (stop func()) {
	s.closed = true
	stop, s.stop = s.stop, nil
	return stop
}

// finish ends everything. It returns the calls in flight, which the caller
// concludes, and the functions that cancel the peer's requests. first is false if
// the connection had ended before.
func (s *state) finish(err error) (calls map[int64]*call, cancels []func(error), first bool) {
	if s.end != nil {
		return nil, nil, false
	}
	s.end = err
	calls, s.calls = s.calls, map[int64]*call{}
	s.tasks, s.lingering = nil, nil
	s.tellEnded()
	clear(s.ongoing)
	clear(s.abandoned)
	for _, r := range s.requests {
		if r.cancel != nil {
			cancels = append(cancels, r.cancel)
		}
	}
	return calls, cancels, true
}

// call is a request of ours in flight. It is reused after its end, unless it goes on
// as a task.
type call struct {
	id         int64
	method     string
	stream     Stream
	callStream CallStream // stream, if it is one of this call alone
	progress   func(params []byte)
	late       func(what string) // wire.Call.Late
	owner      any
	group      any
	asksTask   bool   // the answer may be a task that goes on
	params     []byte // of requests about tasks only
	span       Span   // nil for none

	// Exactly one of these gets the outcome: complete, if it is not nil, or result.
	complete wire.CompletionFunc
	result   chan outcome // made once, with room for one

	// Guarded by Conn.mu:
	limit         Limit
	latest        time.Time // when it reaches Limit.Max; zero for never
	due           time.Time // when its limits are checked; zero for never
	ownStreamOnly bool      // the answer must come on its own stream
	busy          bool      // a progress callback runs
	deferred      bool      // the outcome is delivered when the callback returns
	outcome       outcome
	task          string                  // id of the task that was the answer; "" for none
	stopSend      context.CancelCauseFunc // stops waiting for room on the stream; set while the call waits
	cause         error                   // why it was cancelled while it waited
}

// outcome is how a call ended.
type outcome struct {
	reply     wire.Reply
	err       error
	unsent    bool // the peer has certainly not seen the request
	elsewhere bool // it came on another stream than that of the call
}
