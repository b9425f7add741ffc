package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/health"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
)

// absence says why a server is not there for a session (nil: for nobody), as a
// sentence without secrets; "" if it is, or is started when it is needed.
func (h *Host) absence(session route.Session, u *config.Upstream) (state upstream.State, why string) {
	if u.Disabled {
		return health.Disabled, fmt.Sprintf("server %q is disabled in the configuration (whoever runs mcp-metatool can enable it)", u.Name)
	}
	c, ok := h.upstreams.For(session, u.Name)
	if !ok {
		return "", ""
	}
	s := c.Upstream.(*slot)
	st := s.Status()
	switch st.State {
	case upstream.Starting:
		if st.Err == "" && s.isEarly() {
			return "", "" // it is known what it has, and calls wait for it
		}
		if st.Err == "" {
			return st.State, fmt.Sprintf("server %q is still starting (try again in a moment)", u.Name)
		}
		why = fmt.Sprintf("server %q is down and being started again; its last error: %s", u.Name, health.LastError(st))
	case upstream.Failed:
		why = fmt.Sprintf("server %q is down: %s", u.Name, health.LastError(st))
		if st.RestartAt.IsZero() {
			why += `; it is not started again, as its configuration says (restart = "never")`
		} else {
			why += fmt.Sprintf("; the next start is in %v", max(0, time.Until(st.RestartAt)).Round(100*time.Millisecond))
		}
	case upstream.Closed:
		return st.State, fmt.Sprintf("server %q has been shut down", u.Name)
	default:
		return st.State, ""
	}
	return st.State, h.config().NewMasker().Mask(why) + " (health_check says how it is)"
}

// Absent implements route.Absences.
func (h *Host) Absent(session route.Session, server string) (why string, starting bool) {
	cfg := h.config()
	for i := range cfg.Upstreams {
		if u := &cfg.Upstreams[i]; u.Name == server {
			state, why := h.absence(session, u)
			return why, state == upstream.Starting
		}
	}
	return "", false
}

// AbsentOwner implements route.Absences. Of the servers whose prefix the name
// has, that with the longest one counts. One without a prefix can have any tool.
func (h *Host) AbsentOwner(session route.Session, name string) (why string, sure bool) {
	cfg := h.config()
	var prefixed, others []*config.Upstream
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		own, ok := strings.CutPrefix(name, u.Prefix)
		switch {
		case !ok || !u.Exposes(own) || u.Hides(own):
		case u.Prefix != "" && own != "":
			prefixed = append(prefixed, u)
		case u.Prefix == "" && !u.Disabled:
			others = append(others, u)
		}
	}
	slices.SortStableFunc(prefixed, func(a, b *config.Upstream) int { return cmp.Compare(len(b.Prefix), len(a.Prefix)) })
	for _, u := range prefixed[:min(1, len(prefixed))] {
		if _, why := h.absence(session, u); why != "" {
			return why, true
		}
	}
	for _, u := range others {
		if _, why := h.absence(session, u); why != "" {
			return why, false
		}
	}
	return "", false
}

// Absences implements builtin.Absences.
func (h *Host) Absences(origin route.Origin) []builtin.Absence {
	var session route.Session
	if origin != nil {
		session = origin.Session()
	}
	cfg := h.config()
	var all []builtin.Absence
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		if state, why := h.absence(session, u); why != "" {
			all = append(all, builtin.Absence{Server: abi.Ident(u.Name), State: string(state), Why: why})
		}
	}
	return all
}

// plain takes secrets out of what is said of an upstream that is down: it goes to
// clients.
func (s *slot) plain(err error) error {
	var down *upstream.DownError
	if !errors.As(err, &down) {
		return err
	}
	masked := *down
	masked.Reason = s.host.config().NewMasker().Mask(down.Reason)
	return &masked
}

// ready is Ready of an upstream, without secrets in its error.
func (s *slot) ready(ctx context.Context, up *upstream.Upstream) error { return s.plain(up.Ready(ctx)) }
