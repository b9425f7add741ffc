package rpc

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Bounds on the records of ended calls.
const (
	// maxAbandoned bounds the cancelled calls whose late answers are distinguished from stray
	// answers. The distinction is for the log and for wire.Call.Late.
	maxAbandoned = 4096
	// maxLingering bounds the cancelled calls that still own messages of the peer.
	maxLingering = 256
	// maxTasks bounds the tasks whose progress is still passed on. Above this number the oldest
	// task loses the token.
	maxTasks = 1024
	// lingerTime is how long a cancelled call still owns messages of the peer. The peer may send
	// more for the call before handling the cancellation, and these messages must not be attributed
	// to the next caller.
	lingerTime = 5 * time.Second
)

// state is everything in flight on a connection. Conn.mu guards state, and only the methods of
// state change state.
//
// Invariants:
//
//  1. A call is in calls from registration until exactly one of these events: answer, failure,
//     cancellation, end of the connection. The remover concludes the call, so every call has
//     exactly one outcome. Only Submit removes a call without an outcome, if the stream is full.
//  2. While a progress callback of a call runs (busy), the outcome is kept in call.outcome, and the
//     goroutine of the callback delivers the outcome. So no progress comes after the outcome.
//  3. An id is in at most one of calls and abandoned. After the end of the
//     connection, calls stays empty.
//  4. tasks holds the calls that were answered with a continuing task, the
//     oldest first; ongoing holds the same calls by id.
//  5. A request of the peer is in requests from arrival until answer or cancellation, so no id is
//     present twice. open counts the request until Reply, which is called for cancelled requests
//     too. len(requests) <= open.
//  6. The timer is set (timerSet) whenever a call in calls has a limit, for the earliest due time
//     or earlier.
type state struct {
	ids       ids
	calls     map[int64]*call        // in flight
	abandoned map[int64]func(string) // cancelled calls with an outstanding answer: wire.Call.Late
	lingering []lingering            // oldest first
	ended     chan struct{}          // closed when a call ends; nil without a waiting goroutine
	tasks     []*call
	ongoing   map[int64]*call

	requests map[string]*Request // in flight, by wire.IDKey or by uniqueKey
	open     int                 // requests without a Reply yet
	keys     uint64              // how many keys uniqueKey has made

	end      error     // why the connection has ended; nil before
	closed   bool      // requests of the peer are refused
	stop     func()    // stops watching the context of New; nil for none
	timerSet bool      // the timer is set, or the timer's function is about to run
	timerAt  time.Time // when the timer fires
}

// lingering is the owner of a recently cancelled call.
type lingering struct {
	id       int64
	owner    any
	group    any // of the call; see wire.Call.Group
	until    time.Time
	answered bool // answered late, so the peer sends nothing more for the call
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

// register adds a call to the calls in flight. The error is the error of an ended connection.
func (s *state) register(p *call) error {
	if s.end == nil {
		s.calls[p.id] = p
	}
	return s.end
}

// take removes a call from the calls in flight and returns the call, nil if not in flight. The
// caller concludes the call.
func (s *state) take(id int64) *call {
	p := s.calls[id]
	delete(s.calls, id)
	s.tellEnded()
	return p
}

// takeOn is take for all calls on a stream.
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

// abandon is take for a cancelled call: an answer may still come.
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

// oldestOfLargest returns the index of the oldest element of the largest group: a client with many
// cancelled calls displaces only calls of the same client.
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

// expire removes the expired elements.
func expire(l []lingering, now time.Time) []lingering {
	n := slices.IndexFunc(l, func(o lingering) bool { return now.Before(o.until) })
	if n < 0 {
		n = len(l)
	}
	return slices.Delete(l, 0, n)
}

// startWaiting records a call as waiting for room on the stream; stop ends the wait. startWaiting
// returns false if the call has ended.
func (s *state) startWaiting(p *call, stop context.CancelCauseFunc) bool {
	if s.calls[p.id] == nil {
		return false
	}
	p.stopSend = stop
	return true
}

// cancelWaiting reports whether a cancelled call still waits for the stream, and then keeps the
// cause.
func (s *state) cancelWaiting(p *call, cause error) bool {
	if p.stopSend == nil {
		return false
	}
	p.cause = cause
	return true
}

// stopWaiting records whether the stream has accepted a request. stopWaiting returns the cause of a
// cancellation in the meantime, nil for none, and whether the call had ended. An unsent call is
// removed from the calls in flight.
func (s *state) stopWaiting(p *call, sent bool) (cause error, over bool) {
	p.stopSend = nil
	if sent {
		return p.cause, false
	}
	s.acknowledge(p.id) // no answer will come
	s.lingering = slices.DeleteFunc(s.lingering, func(o lingering) bool { return o.id == p.id })
	return p.cause, s.take(p.id) == nil
}

// move changes the stream of a call. move returns false for the same stream, or an ended call.
func (s *state) move(p *call, to Stream) bool {
	if p.stream == to || s.calls[p.id] == nil {
		return false
	}
	p.stream = to
	return true
}

// acknowledge forgets a cancelled call after the late answer, or if the request was never sent. It
// returns the call's wire.Call.Late, and whether the call was known.
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

// beginProgress finds the call or task of a progress notification, and waits until no other
// callback of the call runs. It returns nil for unwanted progress; late belongs to a cancelled
// call. Otherwise the caller must call endProgress.
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

// endProgress records the return of a progress callback, and restarts the idle limit. It reports
// whether the caller has to deliver the outcome.
func (s *state) endProgress(p *call, now time.Time) (deliver bool) {
	p.busy = false
	p.restart(now)
	deliver, p.deferred = p.deferred, false
	return deliver
}

// keepTask keeps the progress token of a call valid after an answer with a task.
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

// strip removes the parts of a call that a task's progress does not need, after an answer with a
// task.
func (s *state) strip(p *call) {
	p.complete, p.late, p.owner, p.group, p.outcome = nil, nil, nil, nil, outcome{}
}

// endTask forgets the calls that were answered with the given task.
func (s *state) endTask(task string) {
	s.tasks = slices.DeleteFunc(s.tasks, func(p *call) bool {
		if p.task == task {
			delete(s.ongoing, p.id)
			return true
		}
		return false
	})
}

// uniqueKey returns a key for a single request (Options.SharedIDs).
func (s *state) uniqueKey() string {
	s.keys++
	return strconv.FormatUint(s.keys, 10)
}

// admit adds a request of the peer to the requests in flight, or refuses the request.
func (s *state) admit(r *Request, most int) *wire.RPCError {
	switch {
	case s.closed:
		return wire.Errorf(wire.CodeInternal, "request %s refused: the session has ended", excerpt(string(r.ID)))
	case s.requests[r.key] != nil:
		bad := wire.Errorf(wire.CodeInvalidRequest, "invalid request: id %s is in use by a request in flight", excerpt(string(r.ID)))
		r.ID = nil // with the id, the answer would seem to be for the other request
		return bad
	case s.open >= most:
		return wire.Errorf(wire.CodeInternal, "too many requests in flight (at most %d): wait for answers or cancel some, then send it again", most)
	}
	s.requests[r.key] = r
	s.open++
	return nil
}

// answer removes a request of the peer from the requests in flight. drop is set for a cancelled
// request, which must not be answered (revision 2025-11-25, basic/utilities/cancellation). ok is
// false after an earlier Reply.
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

// drop cancels the requests of the peer for which match returns true. It returns functions that
// cancel the work; the caller must call them.
func (s *state) drop(cause error, match func(r *Request) bool) (cancels []func(error)) {
	for key, r := range s.requests {
		if !match(r) {
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

// onCancel sets the function that cancels the work for a request. A previous function is replaced
// only if replace is set. If cause is not nil, the caller has to call the function at once.
func (s *state) onCancel(r *Request, cancel func(error), replace bool) (cause error) {
	if !r.replied && (replace || r.cancel == nil) {
		r.cancel = cancel
	}
	if r.cause != nil {
		return r.cause
	}
	return s.end
}

// close makes admit refuse requests. close returns the function that stops watching the context of
// New, or nil.
func (s *state) close() (stop func()) {
	s.closed = true
	stop, s.stop = s.stop, nil
	return stop
}

// finish ends everything. It returns the calls in flight, which the caller concludes, and the
// functions to cancel the peer's requests. first is false if the connection had ended before.
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

// call is a request of the proxy in flight. A call is reused after the end, unless the call
// continues as a task.
type call struct {
	id         int64
	method     string
	stream     Stream
	callStream CallStream // stream, if it belongs to this call alone
	progress   func(params []byte)
	late       func(what string) // wire.Call.Late
	owner      any
	group      any
	asksTask   bool   // the answer may be a continuing task
	params     []byte // of requests about tasks only
	span       Span   // nil for none

	// Either complete, if not nil, or result gets the outcome.
	complete wire.CompletionFunc
	result   chan outcome // made once, with room for one outcome

	// Guarded by Conn.mu:
	limit         Limit
	latest        time.Time // the time of Limit.Max; zero for never
	due           time.Time // the next check of the limits; zero for never
	ownStreamOnly bool      // the answer must come on the call's own stream
	busy          bool      // a progress callback runs
	deferred      bool      // the outcome is delivered when the callback returns
	outcome       outcome
	task          string                  // id of the task in the answer; "" for none
	stopSend      context.CancelCauseFunc // stops waiting for room on the stream; set while the call waits
	cause         error                   // the reason for a cancellation during the wait
}

// outcome is how a call ended.
type outcome struct {
	reply     wire.Reply
	err       error
	unsent    bool // the peer has certainly not seen the request
	elsewhere bool // the answer came on another stream than the call's
}

// ids generates the ids of the proxy's requests and their progress tokens. Sessions share a
// connection, and a server's messages on behalf of one session must not reach a request of another.
// So an id or a token cannot be guessed from earlier ids and tokens. No id is generated twice.
//
// Ids are numbers of 30 bits, because some servers store ids in 32 bits. An id is the number of the
// request after a secret permutation. (After 2^30 requests, ids become larger.) Tokens are strings:
// an encrypted id, one of 2^128 values.
//
// The zero value counts from 1 and uses the ids as tokens. Only token and ofToken are safe for
// concurrent use.
type ids struct {
	key  cipher.Block // nil in the zero value
	last int64        // how many ids were generated

	in, out [aes.BlockSize]byte // buffers of round, kept to save allocations
}

// newIDs makes unpredictable ids.
func newIDs() ids {
	var key [16]byte
	_, _ = rand.Read(key[:])            // never fails
	block, err := aes.NewCipher(key[:]) // fails for other sizes only
	if err != nil {
		panic("rpc: " + err.Error())
	}
	return ids{key: block}
}

// next returns a new id.
func (x *ids) next() int64 {
	x.last++
	return x.id(x.last)
}

const (
	idBits   = 30
	halfBits = idBits / 2
	halfMask = 1<<halfBits - 1
	// idRounds rounds of a Feistel network turn a pseudorandom function into a
	// strong pseudorandom permutation (Luby and Rackoff).
	idRounds = 4
)

// id returns the id of the nth request, counted from 1.
func (x *ids) id(nth int64) int64 {
	if x.key == nil {
		return nth
	}
	n := nth - 1
	left, right := n>>halfBits&halfMask, n&halfMask
	for r := range idRounds {
		left, right = right, left^x.round(r, right)
	}
	return n>>idBits<<idBits | left<<halfBits | right + 1
}

// nth returns the number of the request with the given id, even if the id has not been generated.
func (x *ids) nth(id int64) int64 {
	if x.key == nil {
		return id
	}
	n := id - 1
	left, right := n>>halfBits&halfMask, n&halfMask
	for r := idRounds - 1; r >= 0; r-- {
		left, right = right^x.round(r, left), left
	}
	return n>>idBits<<idBits | left<<halfBits | right + 1
}

// issued reports whether id was generated.
func (x *ids) issued(id int64) bool { return id > 0 && x.nth(id) <= x.last }

// round is the round function of the Feistel network.
func (x *ids) round(r int, half int64) int64 {
	x.in[0] = byte(r) + 1 // tokens have 0 in this byte
	binary.BigEndian.PutUint16(x.in[1:], uint16(half))
	x.key.Encrypt(x.out[:], x.in[:])
	return int64(binary.BigEndian.Uint16(x.out[:])) & halfMask
}

// token returns the raw progress token of the request with the given id.
func (x *ids) token(id int64) []byte {
	if x.key == nil {
		return strconv.AppendInt(nil, id, 10)
	}
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint64(block[8:], uint64(id))
	x.key.Encrypt(block[:], block[:])
	token := append(make([]byte, 0, 2*len(block)+2), '"')
	return append(hex.AppendEncode(token, block[:]), '"')
}

// ofToken returns the id of the request with the raw progress token raw.
func (x *ids) ofToken(raw []byte) (int64, bool) {
	if x.key == nil {
		id, err := strconv.ParseInt(string(raw), 10, 64)
		return id, err == nil
	}
	var block [aes.BlockSize]byte
	if len(raw) != 2*len(block)+2 || raw[0] != '"' {
		return 0, false
	}
	if _, err := hex.Decode(block[:], raw[1:len(raw)-1]); err != nil {
		return 0, false
	}
	x.key.Decrypt(block[:], block[:])
	id := binary.BigEndian.Uint64(block[8:])
	return int64(id), binary.BigEndian.Uint64(block[:]) == 0 && id != 0 && id>>63 == 0
}
