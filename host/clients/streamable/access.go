package streamable

import (
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

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
