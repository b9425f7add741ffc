package rpc

import (
	"context"
	"slices"
	"time"
)

// Candidates are the calls that a request of the peer may belong to: the call of the request's
// stream, or all calls with an owner that were in flight or had been cancelled recently when the
// request arrived. Candidates are safe for concurrent use.
type Candidates struct {
	conn  *Conn // nil if the call is known
	calls []candidate
}

type candidate struct {
	id        int64
	owner     any
	cancelled bool // already when the request arrived
	abandoned bool // cancelled since, which left has seen; guarded by Conn.mu
}

// Candidates returns the candidates of the request. Before the handler returns, they are the calls
// at the time of the request's arrival.
func (r *Request) Candidates() *Candidates {
	if call, ok := r.on.(CallStream); ok {
		if id, owner := call.Call(); owner != nil {
			return &Candidates{calls: []candidate{{id: id, owner: owner}}}
		}
		return &Candidates{}
	}
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	return &Candidates{r.conn, r.conn.state.candidates(time.Now())}
}

// Owners returns the owners of all candidates; see wire.Inbound.
func (c *Candidates) Owners() []any { return ownersOf(c.calls) }

// Await implements wire.Inbound.Await.
func (c *Candidates) Await(ctx context.Context, decided func(owners []any) bool) []any {
	for {
		left, ended, expiry := c.left()
		owners := ownersOf(left)
		if decided(owners) || ctx.Err() != nil {
			return owners
		}
		awaitEnd(ctx, ended, expiry)
	}
}

// left returns the candidates in flight, a channel that is closed when a call ends, and the time
// when the first cancelled candidate is forgotten; zero for never. A call that was cancelled after
// the request arrived counts for as long as the request waits, even after a late answer: the peer
// may just have left its question open.
func (c *Candidates) left() (left []candidate, ended <-chan struct{}, expiry time.Time) {
	if c.conn == nil {
		return c.calls, nil, expiry
	}
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	s := &c.conn.state
	for i := range c.calls {
		call := &c.calls[i]
		at := slices.IndexFunc(s.lingering, func(l lingering) bool { return l.id == call.id })
		if at >= 0 && !call.cancelled {
			call.abandoned = true
		}
		lingers := at >= 0 && call.cancelled && !s.lingering[at].answered && time.Now().Before(s.lingering[at].until)
		if lingers && (expiry.IsZero() || s.lingering[at].until.Before(expiry)) {
			expiry = s.lingering[at].until
		}
		if lingers || call.abandoned && s.end == nil || s.calls[call.id] != nil {
			left = append(left, candidate{id: call.id, owner: call.owner})
		}
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return left, s.ended, expiry
}

// awaitEnd waits until a call ends, a time comes, or ctx ends.
func awaitEnd(ctx context.Context, ended <-chan struct{}, expiry time.Time) {
	var expired <-chan time.Time
	if !expiry.IsZero() {
		timer := time.NewTimer(time.Until(expiry))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ended:
	case <-expired:
	case <-ctx.Done():
	}
}

// tellEnded wakes the goroutines that wait for the end of a call.
func (s *state) tellEnded() {
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// candidates returns all calls that a message of the peer may belong to: first the recently
// cancelled calls, then the calls in flight, oldest first.
func (s *state) candidates(now time.Time) []candidate {
	s.lingering = expire(s.lingering, now)
	order := make([]int64, 0, len(s.calls))
	for id, p := range s.calls {
		if p.owner != nil {
			order = append(order, s.ids.nth(id))
		}
	}
	slices.Sort(order)
	all := make([]candidate, 0, len(s.lingering)+len(order))
	for _, l := range s.lingering {
		if !l.answered {
			all = append(all, candidate{id: l.id, owner: l.owner, cancelled: true})
		}
	}
	for _, nth := range order {
		id := s.ids.id(nth)
		all = append(all, candidate{id: id, owner: s.calls[id].owner})
	}
	return all
}

func ownersOf(calls []candidate) []any {
	owners := make([]any, len(calls))
	for i := range calls { // not a copy: left may be changing other fields
		owners[i] = calls[i].owner
	}
	return owners
}

// ownersOn returns a function that returns the owners of messages on a stream: the owner of the
// stream's call, or the owners of all calls if the stream serves several calls.
func (c *Conn) ownersOn(on Stream) func() []any {
	call, ok := on.(CallStream)
	if !ok {
		return c.mainOwnersFunc
	}
	return func() []any {
		if _, owner := call.Call(); owner != nil {
			return []any{owner}
		}
		return nil
	}
}

func (c *Conn) mainOwners() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ownersOf(c.state.candidates(time.Now()))
}
