package front

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Why no session begins. Each is told to the client.
var (
	errFull    = errors.New("too many sessions are open (try again later, or raise max_sessions)")
	errClosing = errors.New("the server is shutting down")
	errRevoked = errors.New("the token is not valid any more")
)

// quotaError says that one token or address has all the sessions that it may have,
// or begins them too fast.
type quotaError struct{ text string }

func (e *quotaError) Error() string { return e.text }

// errUnused is why a session ends that was begun and never used.
var errUnused = errors.New("the session was not used")

// holder is a token or an address that has begun sessions.
type holder struct {
	sessions int       // those that are ending included
	begins   float64   // sessions that it may begin at once, as of at
	at       time.Time // zero: as many as there can be
}

// quota is what one holder may do.
type quota struct {
	most        int    // sessions at a time
	burst, rate int    // to begin at once, and a second after that
	what, key   string // for messages: of what, and the setting
}

// minBurst is how many sessions a holder may begin at once, however few it may
// have: clients begin anew.
const minBurst = 100

// quotaOfToken is the quota of each token. Where all clients have the same, or
// none, it is everything.
func (h *HTTP) quotaOfToken(g *guard) quota {
	most := h.opts.MaxSessionsPerToken
	switch {
	case most > 0:
		most = min(most, h.opts.MaxSessions)
	case len(g.tokens) > 1:
		most = (h.opts.MaxSessions + 1) / 2
	default:
		most = h.opts.MaxSessions
	}
	return quota{most, max(most, minBurst), h.opts.InitializeRate, "token", "max_sessions_per_token"}
}

func (h *HTTP) quotaOfAddress(address netip.Prefix) quota {
	most := quotaOf(address, h.opts.MaxSessionsPerAddress, h.opts.MaxSessions)
	return quota{most, max(most, minBurst), h.opts.InitializeRate, "address", "max_sessions_per_address"}
}

// admit begins a session for the client with a token and an address, under the
// guard that let its request in. If there are too many sessions, the new one takes
// the place of the oldest one that was never used, if there is one. The caller is
// in the session (inside.Done, leave).
func (h *HTTP) admit(ctx context.Context, g *guard, token digest, address netip.Prefix) (*visit, error) {
	if err := h.pace(g, token, address); err != nil {
		return nil, err
	}
	for {
		v, victim, err := h.begin(g, token, address)
		if victim == nil {
			return v, err
		}
		victim.log().Debug("session ended to make room for another")
		victim.session.End(errUnused)
		select {
		case <-victim.gone: // so that there are never more than may be
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// pace takes note of a session that is to begin. The error says that its token or
// address begins them too fast.
func (h *HTTP) pace(g *guard, token digest, address netip.Prefix) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, by := range h.holders(g, token, address) {
		if by.refill(by.quota, now); by.begins < 1 {
			return &quotaError{fmt.Sprintf("this %s begins sessions too fast (at most %d a second; try again later, or raise initialize_rate)", by.what, by.rate)}
		}
	}
	for _, by := range h.holders(g, token, address) {
		by.begins--
	}
	return nil
}

// refill counts what it may begin by now.
func (o *holder) refill(q quota, now time.Time) {
	if o.at.IsZero() {
		o.begins = float64(q.burst)
	}
	o.begins = min(o.begins+now.Sub(o.at).Seconds()*float64(q.rate), float64(q.burst))
	o.at = now
}

// held is a holder with its quota.
type held struct {
	*holder
	quota
	of func(v *visit) bool // tells which sessions are its own
}

// holders are the token and the address of a client. The caller holds h.mu.
func (h *HTTP) holders(g *guard, token digest, address netip.Prefix) [2]held {
	if h.tokens[token] == nil {
		h.tokens[token] = &holder{}
	}
	if h.addresses[address] == nil {
		h.addresses[address] = &holder{}
	}
	return [2]held{
		{h.tokens[token], h.quotaOfToken(g), func(v *visit) bool { return v.token == token }},
		{h.addresses[address], h.quotaOfAddress(address), func(v *visit) bool { return v.address == address }},
	}
}

// begin makes a session, or names the one that has to end first: that is out of
// sight already.
func (h *HTTP) begin(g *guard, token digest, address netip.Prefix) (v, victim *visit, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.ctx.Err() != nil {
		return nil, nil, errClosing
	}
	// A reload after g was loaded has not seen this session, and would have ended it.
	if !h.guard.Load().knows(token) {
		return nil, nil, errRevoked
	}
	holders := h.holders(g, token, address)
	for _, by := range holders {
		if by.sessions >= by.most && by.most < h.opts.MaxSessions {
			err = &quotaError{fmt.Sprintf("this %s has %d sessions open (end some, or raise %s)", by.what, by.sessions, by.key)}
			return nil, h.evict(by.of), err
		}
	}
	if h.count >= h.opts.MaxSessions {
		return nil, h.evict(func(*visit) bool { return true }), errFull
	}
	v = newVisit(h, rand.Text(), token, address)
	h.visits[v.id] = v
	h.count++
	for _, by := range holders {
		by.sessions++
	}
	v.busy++
	v.inside.Add(1)
	h.workers.Go(v.watch)
	return v, nil, nil
}

// evict takes the session out of sight that has been idle for longest of those
// that were never used; nil if there is none. The caller holds h.mu.
func (h *HTTP) evict(among func(*visit) bool) (oldest *visit) {
	for _, v := range h.visits {
		if v.busy == 0 && !v.used.Load() && among(v) && (oldest == nil || v.last.Before(oldest.last)) {
			oldest = v
		}
	}
	if oldest != nil {
		delete(h.visits, oldest.id)
	}
	return oldest
}

// release makes room for another session.
func (h *HTTP) release(v *visit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
	h.tokens[v.token].sessions--
	h.addresses[v.address].sessions--
}

// forgetHolders forgets those that have no session, and may begin as many as if
// they had never been here. The caller holds h.mu.
func (h *HTTP) forgetHolders() {
	now := time.Now()
	ofToken := h.quotaOfToken(h.guard.Load())
	for token, o := range h.tokens {
		if o.done(ofToken, now) {
			delete(h.tokens, token)
		}
	}
	for address, o := range h.addresses {
		if o.done(h.quotaOfAddress(address), now) {
			delete(h.addresses, address)
		}
	}
}

func (o *holder) done(q quota, now time.Time) bool {
	o.refill(q, now)
	return o.sessions == 0 && o.begins >= float64(q.burst)
}
