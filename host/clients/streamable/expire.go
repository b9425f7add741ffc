package streamable

import (
	"errors"
	"time"
)

var errIdle = errors.New("the session was idle for too long")

// expireSessions ends sessions that have been idle for too long, and those whose tokens
// have expired.
func (h *Handler) expireSessions() {
	ticker := time.NewTicker(min(max(min(h.opts.SessionTTL, h.opts.UnusedTTL)/10, time.Millisecond), time.Minute))
	defer ticker.Stop()
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		// Before it is looked what has expired, so that nothing does so in between.
		next := h.untilExpiry()
		h.endExpired()
		h.expire(time.Now())
		// The ticker notices it too if the clock was set, or the machine was asleep.
		expiry.Reset(next)
		select {
		case <-ticker.C:
		case <-expiry.C:
		case <-h.admitted: // other tokens
		case <-h.ctx.Done():
			return
		}
	}
}

// untilExpiry returns how long to wait for the next token to expire.
func (h *Handler) untilExpiry() time.Duration {
	p := h.policy.Load()
	if next, ok := p.nextExpiry(); ok {
		return next.Sub(p.now())
	}
	return time.Hour
}

// expire ends what has been idle for too long at a time.
func (h *Handler) expire(now time.Time) {
	h.mu.Lock()
	gone := h.removeIdlePrincipals(now)
	h.mu.Unlock()
	for _, p := range gone {
		p.conn.End(errIdle)
	}
	idle, unused, rest := h.removeIdle(now)
	for _, s := range idle {
		s.mcp.End(errIdle)
	}
	for _, s := range unused {
		s.mcp.End(errUnused)
	}
	for _, s := range rest {
		s.expireStreams(now.Add(-replayTime))
	}
}

// removeIdle removes the sessions that are idle or unused at a time, and returns the rest
// too.
func (h *Handler) removeIdle(now time.Time) (idle, unused, rest []*session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeUsages()
	for id, s := range h.sessions {
		quiet := now.Sub(s.idleSince)
		switch {
		case s.requests > 0:
			rest = append(rest, s)
		case quiet > h.opts.SessionTTL:
			delete(h.sessions, id)
			idle = append(idle, s)
		case !s.used.Load() && quiet > h.opts.UnusedTTL:
			delete(h.sessions, id)
			unused = append(unused, s)
		default:
			rest = append(rest, s)
		}
	}
	return idle, unused, rest
}
