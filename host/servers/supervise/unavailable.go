package supervise

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// unavailable returns why a server is not available to a session (nil: to no session in
// particular), as a sentence without secrets. reason is "" if the server is available or will be
// started when needed.
func (u *Upstreams) unavailable(session route.Session, c *config.Upstream) (state servers.State, reason string) {
	if c.Disabled {
		return health.Disabled, fmt.Sprintf("server %q is disabled in the configuration (the user who runs mcp-metatool can enable it)", c.Name)
	}
	m, ok := u.managed(session, c.Name)
	if !ok {
		return "", ""
	}
	st := m.Status()
	switch st.State {
	case servers.Starting:
		if st.Err == "" && m.isRemembered() {
			return "", "" // the lists are known, and calls wait for the server
		}
		if st.Err == "" {
			return st.State, fmt.Sprintf("server %q is still starting (try again in a moment)", c.Name)
		}
		reason = fmt.Sprintf("server %q is down and being restarted; its last error: %s", c.Name, health.LastError(st))
	case servers.Failed:
		reason = fmt.Sprintf("server %q is down: %s", c.Name, health.LastError(st))
		switch {
		case c.Invalid != nil:
			// The error includes the advice.
		case st.RestartAt.IsZero():
			reason += `; it is not restarted, because its configuration has restart = "never"`
		default:
			reason += fmt.Sprintf("; the next start is in %v", max(0, time.Until(st.RestartAt)).Round(100*time.Millisecond))
		}
	case servers.Closed:
		return st.State, fmt.Sprintf("server %q has been shut down", c.Name)
	default:
		return st.State, ""
	}
	return st.State, u.env.mask(reason) + " (health_check shows its state)"
}

// Unavailable implements route.Availability.
func (u *Upstreams) Unavailable(session route.Session, server string) (reason string, starting bool) {
	cfg := u.cfg.Load()
	for i := range cfg.Upstreams {
		if c := &cfg.Upstreams[i]; c.Name == server && route.MayUse(session, server) {
			state, reason := u.unavailable(session, c)
			return reason, state == servers.Starting
		}
	}
	return "", false
}

// OwnerUnavailable implements route.Availability. If the name begins with the prefixes of
// several servers, the longest prefix counts. A server without a prefix may have any
// tool.
func (u *Upstreams) OwnerUnavailable(session route.Session, name string) (reason string, sure bool) {
	owner, candidates := u.owners(session, name)
	if owner != nil {
		if _, reason := u.unavailable(session, owner); reason != "" {
			return reason, true
		}
	}
	for _, c := range candidates {
		if _, reason := u.unavailable(session, c); reason != "" {
			return reason, false
		}
	}
	return "", false
}

// owners returns the server of a public name according to the prefix, or nil, and the servers
// without a prefix, which could have the name.
func (u *Upstreams) owners(session route.Session, name string) (owner *config.Upstream, candidates []*config.Upstream) {
	cfg := u.cfg.Load()
	for i := range cfg.Upstreams {
		c := &cfg.Upstreams[i]
		own, ok := strings.CutPrefix(name, c.Prefix)
		switch {
		case !ok || !c.Exposes(own) || c.Hides(own) || !route.RightsOf(session).Shows(c.Name, own):
		case c.Prefix != "" && own != "" && (owner == nil || len(c.Prefix) > len(owner.Prefix)):
			owner = c
		case c.Prefix == "" && !c.Disabled:
			candidates = append(candidates, c)
		}
	}
	return owner, candidates
}

// AwaitOwner waits until the server of a public name, according to the prefix, has started, for the
// server's timeout at most.
func (u *Upstreams) AwaitOwner(ctx context.Context, name string) {
	owner, _ := u.owners(nil, name)
	if owner == nil {
		return
	}
	for _, m := range u.all() {
		if m.name == owner.Name {
			m.awaitStart(ctx, owner.Timeout)
		}
	}
}

// UnavailableServers implements builtin.Availability.
func (u *Upstreams) UnavailableServers(origin route.Origin) []health.Unavailable {
	var session route.Session
	if origin != nil {
		session = origin.Session()
	}
	cfg := u.cfg.Load()
	var all []health.Unavailable
	for i := range cfg.Upstreams {
		c := &cfg.Upstreams[i]
		if state, reason := u.unavailable(session, c); reason != "" && route.MayUse(session, c.Name) {
			all = append(all, health.Unavailable{Server: abi.Ident(c.Name), State: string(state), Why: reason})
		}
	}
	return all
}
