package supervise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/health"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
)

// unavailable returns why a server is not available to a session (nil: to no session in
// particular), as a sentence without secrets. why is "" if the server is available
// or will be started when it is needed.
func (u *Upstreams) unavailable(session route.Session, c *config.Upstream) (state upstream.State, why string) {
	if c.Disabled {
		return health.Disabled, fmt.Sprintf("server %q is disabled in the configuration (the user who runs mcp-metatool can enable it)", c.Name)
	}
	m, ok := u.managed(session, c.Name)
	if !ok {
		return "", ""
	}
	st := m.Status()
	switch st.State {
	case upstream.Starting:
		if st.Err == "" && m.isRemembered() {
			return "", "" // its lists are known, and calls wait for it
		}
		if st.Err == "" {
			return st.State, fmt.Sprintf("server %q is still starting (try again in a moment)", c.Name)
		}
		why = fmt.Sprintf("server %q is down and being restarted; its last error: %s", c.Name, health.LastError(st))
	case upstream.Failed:
		why = fmt.Sprintf("server %q is down: %s", c.Name, health.LastError(st))
		switch {
		case c.Invalid != nil:
			// The error says what to do.
		case st.RestartAt.IsZero():
			why += `; it is not restarted, because its configuration has restart = "never"`
		default:
			why += fmt.Sprintf("; the next start is in %v", max(0, time.Until(st.RestartAt)).Round(100*time.Millisecond))
		}
	case upstream.Closed:
		return st.State, fmt.Sprintf("server %q has been shut down", c.Name)
	default:
		return st.State, ""
	}
	return st.State, u.env.mask(why) + " (health_check shows its state)"
}

// Unavailable implements route.Availability.
func (u *Upstreams) Unavailable(session route.Session, server string) (why string, starting bool) {
	cfg := u.cfg.Load()
	for i := range cfg.Upstreams {
		if c := &cfg.Upstreams[i]; c.Name == server && route.MayUse(session, server) {
			state, why := u.unavailable(session, c)
			return why, state == upstream.Starting
		}
	}
	return "", false
}

// OwnerUnavailable implements route.Availability. If the name begins with the prefixes of
// several servers, the longest prefix counts. A server without a prefix may have any
// tool.
func (u *Upstreams) OwnerUnavailable(session route.Session, name string) (why string, sure bool) {
	cfg := u.cfg.Load()
	var prefixed, others []*config.Upstream
	for i := range cfg.Upstreams {
		c := &cfg.Upstreams[i]
		own, ok := strings.CutPrefix(name, c.Prefix)
		switch {
		case !ok || !c.Exposes(own) || c.Hides(own) || !route.RightsOf(session).Shows(c.Name, own):
		case c.Prefix != "" && own != "":
			prefixed = append(prefixed, c)
		case c.Prefix == "" && !c.Disabled:
			others = append(others, c)
		}
	}
	slices.SortStableFunc(prefixed, func(a, b *config.Upstream) int { return cmp.Compare(len(b.Prefix), len(a.Prefix)) })
	for _, c := range prefixed[:min(1, len(prefixed))] {
		if _, why := u.unavailable(session, c); why != "" {
			return why, true
		}
	}
	for _, c := range others {
		if _, why := u.unavailable(session, c); why != "" {
			return why, false
		}
	}
	return "", false
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
		if state, why := u.unavailable(session, c); why != "" && route.MayUse(session, c.Name) {
			all = append(all, health.Unavailable{Server: abi.Ident(c.Name), State: string(state), Why: why})
		}
	}
	return all
}
