package streamable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/origin"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Errors for clients that cannot begin a session.
var (
	errFull    = fmt.Errorf("too many sessions are open (%s)", limits.Sessions.Remedy())
	errClosing = errors.New("the server is shutting down")
)

// quotaError is the error for a token or an address that has reached the limit on sessions, or
// begins sessions too fast.
type quotaError struct{ text string }

func (e *quotaError) Error() string { return e.text }

// errUnused is the cause of the end of a session that was never used.
var errUnused = errors.New("the session was not used")

// usage counts the sessions of a token or an address. A usage is also a token bucket for the rate
// of new sessions.
type usage struct {
	sessions  int       // including ending sessions
	allowance float64   // sessions that may begin at once, as of filled
	filled    time.Time // zero: the allowance is full
}

// quota bounds a usage.
type quota struct {
	most        int    // sessions at a time
	burst, rate int    // sessions to begin at once, and per second afterwards
	holder      string // for messages: "token" or "address"
	limit       *limits.Limit
}

// minBurst is the lowest burst, even if the maximum number of sessions is lower, since
// clients reconnect.
const minBurst = 100

// quotaOfToken returns the quota of each token. If all clients have the same token, or
// none, the quota is MaxSessions.
func (h *Handler) quotaOfToken(p *policy) quota {
	most := h.opts.MaxSessionsPerToken
	switch {
	case most > 0:
		most = min(most, h.opts.MaxSessions)
	case len(p.tokens) > 1:
		most = (h.opts.MaxSessions + 1) / 2
	default:
		most = h.opts.MaxSessions
	}
	return quota{most, max(most, minBurst), h.opts.InitializeRate, "token", limits.SessionsPerToken}
}

func (h *Handler) quotaOfAddress(address netip.Prefix) quota {
	most := shareOfAddress(address, h.opts.MaxSessionsPerAddress, h.opts.MaxSessions)
	return quota{most, max(most, minBurst), h.opts.InitializeRate, "address", limits.SessionsPerAddress}
}

// admit begins a session for a client with a token and an address, under the policy that accepted
// the client's request. If the limit on sessions is reached, the oldest never used session ends
// first. The caller must call serving.Done and leave.
func (h *Handler) admit(ctx context.Context, p *policy, token bearer.Digest, address netip.Prefix) (*session, error) {
	if h.opts.Refuses != nil {
		if err := h.opts.Refuses(); err != nil {
			return nil, err
		}
	}
	if err := h.checkRate(p, token, address); err != nil {
		return nil, err
	}
	for {
		s, victim, err := h.begin(p, token, address, "")
		if victim == nil {
			return s, err
		}
		victim.log().Debug("session ended to make room for another")
		victim.mcp.End(errUnused)
		select {
		case <-victim.ended: // keeps the number of sessions within the limit
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// checkRate counts a session about to begin. The error names the token or address that begins
// sessions too fast.
func (h *Handler) checkRate(p *policy, token bearer.Digest, address netip.Prefix) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	all := h.accounts(p, token, address)
	counted := all[:]
	if token.Principal() != "" && address.Addr().IsLoopback() {
		// Proxies connect from loopback addresses, so all tokens share the address, and a single
		// client must not use up the rate of the other clients.
		counted = all[:1]
	}
	for _, by := range counted {
		if by.refill(by.quota, now); by.allowance < 1 {
			return &quotaError{fmt.Sprintf("this %s begins sessions too fast (at most %d a second; %s)", by.holder, by.rate, limits.InitializeRate.Remedy())}
		}
	}
	for _, by := range counted {
		by.allowance--
	}
	return nil
}

// refill adds the allowance accrued since the last call.
func (u *usage) refill(q quota, now time.Time) {
	if u.filled.IsZero() {
		u.allowance = float64(q.burst)
	}
	u.allowance = min(u.allowance+now.Sub(u.filled).Seconds()*float64(q.rate), float64(q.burst))
	u.filled = now
}

// account is a usage with its quota.
type account struct {
	*usage
	quota
	owns func(s *session) bool
}

// accounts returns the account of a client's token and the account of the client's address. The
// caller holds h.mu.
func (h *Handler) accounts(p *policy, token bearer.Digest, address netip.Prefix) [2]account {
	if h.tokens[token] == nil {
		h.tokens[token] = &usage{}
	}
	if h.addresses[address] == nil {
		h.addresses[address] = &usage{}
	}
	return [2]account{
		{h.tokens[token], h.quotaOfToken(p), func(s *session) bool { return s.token == token }},
		{h.addresses[address], h.quotaOfAddress(address), func(s *session) bool { return s.address == address }},
	}
}

// begin makes a session, or returns the session that has to end first, the victim. The victim can
// no longer be found. id is the id of a session of another replica, which cannot be found until the
// session has begun here; "" for a new session.
func (h *Handler) begin(p *policy, token bearer.Digest, address netip.Prefix, id string) (s, victim *session, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.ctx.Err() != nil {
		return nil, nil, errClosing
	}
	// A reload after p was loaded could not end this session, so check again.
	if !h.policy.Load().accepts(token) {
		return nil, nil, errRevoked
	}
	accounts := h.accounts(p, token, address)
	for _, by := range accounts {
		if by.sessions >= by.most && by.most < h.opts.MaxSessions {
			err = &quotaError{fmt.Sprintf("this %s has %d sessions open (%s)", by.holder, by.sessions, by.limit.Remedy())}
			return nil, h.evict(by.owns), err
		}
	}
	if h.count >= h.opts.MaxSessions {
		return nil, h.evict(func(*session) bool { return true }), errFull
	}
	name := cmp.Or(id, newSessionID(h.opts.Fleet))
	place, err := h.place(name, token, address)
	if err != nil {
		return nil, h.evict(accounts[0].owns), err
	}
	s = newSession(h, name, token, address)
	s.place = place
	if id != "" {
		s.begun = make(chan struct{})
	} else {
		h.sessions[s.id] = s
		if f := h.opts.Fleet; f != nil {
			s.held = f.Sessions.Create(s.id, token, s.mcp.Keep)
		}
	}
	h.count++
	for _, by := range accounts {
		by.sessions++
	}
	s.requests++
	s.serving.Add(1)
	h.workers.Go(s.run)
	return s, nil, nil
}

// place counts a beginning session in the budget: for the session's principal, or else for the
// address.
func (h *Handler) place(id string, token bearer.Digest, address netip.Prefix) (*budget.Account, error) {
	owner := budget.Member{Group: address, Of: address.String() + " " + id}
	if p := token.Principal(); p != "" {
		owner.Group = p
	}
	place := h.opts.Session.Budget.OpenSession(owner)
	if err := place.Add(sessionMemory); err != nil {
		place.Close()
		return nil, fmt.Errorf("no session begins: %s", limits.Explain(err))
	}
	return place, nil
}

// evict removes and returns the never used session that has been idle for longest, or nil. The
// caller holds h.mu.
func (h *Handler) evict(among func(*session) bool) (oldest *session) {
	for _, s := range h.sessions {
		if s.requests == 0 && !s.used.Load() && among(s) && (oldest == nil || s.idleSince.Before(oldest.idleSince)) {
			oldest = s
		}
	}
	if oldest != nil {
		delete(h.sessions, oldest.id)
	}
	return oldest
}

// release stops counting an ended session.
func (h *Handler) release(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
	h.tokens[s.token].sessions--
	h.addresses[s.address].sessions--
}

// removeUsages removes the usages that do not differ from new usages. The caller holds h.mu.
func (h *Handler) removeUsages() {
	now := time.Now()
	ofToken := h.quotaOfToken(h.policy.Load())
	for token, u := range h.tokens {
		if u.isNew(ofToken, now) {
			delete(h.tokens, token)
		}
	}
	for address, u := range h.addresses {
		if u.isNew(h.quotaOfAddress(address), now) {
			delete(h.addresses, address)
		}
	}
}

// isNew reports whether u has no sessions and the full allowance.
func (u *usage) isNew(q quota, now time.Time) bool {
	u.refill(q, now)
	return u.sessions == 0 && u.allowance >= float64(q.burst)
}

// policy is Access in a form for checking requests. A request loads the policy once and passes the
// policy on, so that a reload cannot mix two policies. Tokens expire on their own.
type policy struct {
	tokens   []bearer.Token
	byDigest map[bearer.Digest]*grant
	now      func() time.Time
	origin.Rules
}

// grant is the access of the clients with a token.
type grant struct {
	*bearer.Token
	rights *bearer.Rights
}

// everyone is the access of clients without a token.
var everyone = &grant{Token: &bearer.Token{}}

func newPolicy(a Access, now func() time.Time) *policy {
	p := &policy{tokens: a.Tokens, byDigest: map[bearer.Digest]*grant{}, now: now, Rules: origin.NewRules(a.AllowedOrigins, a.AllowedHosts)}
	for i := range a.Tokens {
		token := &a.Tokens[i]
		p.byDigest[token.Digest] = &grant{token, token.Rights.Prepared()}
	}
	return p
}

// grant returns the access of the clients with a token; nil if the token is not accepted. The zero
// digest stands for clients without a token.
func (p *policy) grant(d bearer.Digest) *grant {
	if len(p.tokens) == 0 && d == (bearer.Digest{}) {
		return everyone
	}
	if g := p.byDigest[d]; g != nil && !g.Expired(p.now()) {
		return g
	}
	return nil
}

// accepts reports whether a session begun with the token may continue.
func (p *policy) accepts(d bearer.Digest) bool { return p.grant(d) != nil }

// rights returns the rights of clients with the token.
func (p *policy) rights(d bearer.Digest) *bearer.Rights {
	if g := p.grant(d); g != nil {
		return g.rights
	}
	return bearer.Nothing
}

// name returns the name of the token, "" for none.
func (p *policy) name(d bearer.Digest) string {
	if g := p.byDigest[d]; g != nil {
		return g.Name
	}
	return ""
}

// authenticate returns the token of r; ok is false if the token is not accepted.
func (p *policy) authenticate(r *http.Request) (token bearer.Digest, ok bool) {
	if len(p.tokens) == 0 {
		return bearer.Digest{}, true
	}
	if found := bearer.Find(p.tokens, r); found != nil && !found.Expired(p.now()) {
		return found.Digest, true
	}
	return bearer.Digest{}, false
}

// nextExpiry returns when the next token expires; ok is false if none will.
func (p *policy) nextExpiry() (next time.Time, ok bool) {
	now := p.now()
	for i := range p.tokens {
		if at := p.tokens[i].Expires; !at.IsZero() && at.After(now) && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

// errRevoked is the cause of the end of sessions with a token that is no longer accepted.
var errRevoked = errors.New("the token is no longer valid")

// SetAccess replaces the access policy. SetAccess ends sessions with a token that is no longer
// accepted. Clients with changed rights are notified of changed lists.
func (h *Handler) SetAccess(a Access) {
	p := newPolicy(a, h.opts.WallClock)
	h.mu.Lock()
	before := h.policy.Swap(p)
	ended := h.removeRefused(p)
	affected := map[route.Session][]wire.Surface{}
	for _, s := range h.sessions {
		affected[s.mcp] = changedLists(before.rights(s.token), p.rights(s.token))
	}
	for token, of := range h.principals {
		affected[of.mcp] = changedLists(before.rights(token), p.rights(token))
	}
	h.mu.Unlock()
	ended()
	for client, lists := range affected {
		for _, surface := range lists {
			client.Changed(surface, nil)
		}
	}
	select {
	case h.admitted <- struct{}{}:
	default: // the pending signal covers this change
	}
}

// changedLists returns the lists that differ between clients with two sets of rights.
func changedLists(before, now *bearer.Rights) []wire.Surface {
	switch {
	case before.View() != now.View():
		return []wire.Surface{wire.Tools, wire.Resources, wire.Prompts}
	case before.MaySave() != now.MaySave():
		return []wire.Surface{wire.Tools}
	}
	return nil
}

// endExpired ends the sessions with expired tokens.
func (h *Handler) endExpired() {
	h.mu.Lock()
	ended := h.removeRefused(h.policy.Load())
	h.mu.Unlock()
	ended()
}

// removeRefused hides sessions with tokens that are not accepted from find. end ends these
// sessions. The caller holds h.mu, but not when calling end.
func (h *Handler) removeRefused(p *policy) (end func()) {
	var sessions []*session
	var principals []*principal
	names := map[string]bool{}
	for id, s := range h.sessions {
		if !p.accepts(s.token) {
			delete(h.sessions, id)
			sessions = append(sessions, s)
			names[p.name(s.token)] = true
		}
	}
	for token, of := range h.principals {
		if !p.accepts(token) {
			delete(h.principals, token)
			principals = append(principals, of)
			names[p.name(token)] = true
		}
	}
	return func() {
		for name := range names {
			if name != "" { // other tokens were removed
				h.log().Info("a token has expired: its sessions end", "token", name)
			}
		}
		for _, of := range principals {
			of.conn.End(errRevoked)
		}
		for _, s := range sessions {
			s.mcp.End(errRevoked)
		}
	}
}
