package streamable

import (
	"errors"
	"time"
)

var errIdle = errors.New("the session was idle for too long")

// expireSessions ends sessions that have been idle for too long, and sessions with expired tokens.
func (h *Handler) expireSessions() {
	ticker := time.NewTicker(min(max(min(h.opts.SessionTTL, h.opts.UnusedTTL)/10, time.Millisecond), time.Minute))
	defer ticker.Stop()
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		// Calculated before the expiry below, so that no token expires unnoticed in between.
		next := h.untilExpiry()
		h.endExpired()
		h.expire(time.Now())
		// The ticker also notices expired tokens after a change of the clock or a sleep of the
		// machine.
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

// expire ends the sessions and principals idle for too long at a time.
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

// removeIdle removes the idle and the unused sessions at a time, and also returns the rest.
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
