package route

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// logLevels are the severities of log messages, least first (revision
// 2025-11-25, server/utilities/logging).
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// usualLevel is the level of a session that never set a level, if another session has set one: the
// shared upstream then logs at a level not chosen by this session.
const usualLevel = "info"

// setLevel sets the lowest level of the log messages for the session. Each upstream is told the
// most verbose level of all sessions.
func (r *Router) setLevel(ctx context.Context, call Call) wire.Reply {
	level, bad := stringParam(call, "level")
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	if !slices.Contains(logLevels, level) {
		return fail(wire.CodeInvalidParams, "%s: unknown level %.64q (known are %s)", call.Method, level, strings.Join(logLevels, ", "))
	}
	s := call.Origin.Session()
	r.with(s, func(c *client) { c.level = level })
	r.hasLevels.Store(true)
	all := r.offering(s, "logging") // other upstreams are told when they are ready
	replies := make([]wire.Reply, len(all))
	var asked sync.WaitGroup
	for i, c := range all {
		asked.Go(func() { replies[i] = r.tellLevel(ctx, call, c, true) })
	}
	asked.Wait()
	for _, reply := range replies {
		if reply.Error == nil {
			return reply
		}
	}
	if len(replies) > 0 && wire.ParseError(replies[0].Error).Code != wire.CodeMethodNotFound {
		return replies[0]
	}
	return empty() // scripts also log, so we have promised log messages
}

// tellLevel sets the level of an upstream. The level is computed with the lock held, so that the
// upstream ends up with the current level. again sends the level even if the upstream was last told
// the same level.
func (r *Router) tellLevel(ctx context.Context, call Call, c serverConn, again bool) wire.Reply {
	release, err := r.leveling.lock(ctx, c.key())
	if err != nil {
		return fail(wire.CodeInternal, "%s: %v", call.Method, err)
	}
	defer release()
	level := r.levelFor(c.key())
	r.mu.Lock()
	told := r.levels[c.key()] == level
	r.mu.Unlock()
	if level == "" || told && !again {
		return empty()
	}
	params, err := wire.Set(call.Params, wire.Quote(level), "level")
	if err != nil {
		return fail(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	reply := r.forward(ctx, call, c, params, nil)
	if reply.Error == nil {
		r.mu.Lock()
		if !r.asleep[c.key()] { // an upstream asleep may not have got the level itself
			r.levels[c.key()] = level
		}
		r.mu.Unlock()
	}
	return reply
}

// levelFor returns the most verbose level set by a session of the connection, "" for none.
func (r *Router) levelFor(at connKey) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	best := len(logLevels)
	for _, c := range r.clients {
		if i := slices.Index(logLevels, c.level); i >= 0 && (at.own == nil || at.own == c.session) {
			best = min(best, i)
		}
	}
	if best == len(logLevels) {
		return ""
	}
	return logLevels[best]
}

// updateLevels tells upstreams their level again after a change by the end of a session.
func (r *Router) updateLevels() {
	r.mu.Lock()
	told := make(map[connKey]string, len(r.levels))
	for at, level := range r.levels {
		told[at] = level
	}
	r.mu.Unlock()
	for at, level := range told {
		if want := r.levelFor(at); want != "" && want != level {
			r.restoreLevel(at)
		}
	}
}

// restoreLevel tells an upstream the level without a request of a client.
func (r *Router) restoreLevel(at connKey) {
	c, ok := r.to(at.own, at.server)
	if !ok {
		return
	}
	if has, _ := c.offers("logging"); !has {
		return
	}
	if reply := r.tellLevel(r.ctx, Call{Method: protocol.MethodSetLevel}, c, false); reply.Error != nil {
		r.Log.Debug("log level not set", "upstream", at.server, "err", wire.ParseError(reply.Error))
	}
}

// Listens reports whether a session has asked for log messages of a level.
func (r *Router) Listens(s Session, level string) (wanted bool) {
	r.with(s, func(c *client) {
		least := slices.Index(logLevels, c.level)
		wanted = least >= 0 && slices.Index(logLevels, level) >= least
	})
	return wanted
}

// listeners returns the sessions that get log messages of a level.
func (r *Router) listeners(at connKey, level string) []Session {
	severity := slices.Index(logLevels, level)
	return r.sessions(func(c *client) bool {
		return c.uses(at) &&
			(severity < 0 || severity >= r.least(c, at) || isStateless(c.session)) // in the stateless era each request decides
	})
}

// least returns the index of the lowest level for a client. The caller holds r.mu.
func (r *Router) least(c *client, at connKey) int {
	level := c.level
	if _, told := r.levels[at]; level == "" && told {
		level = usualLevel
	}
	return slices.Index(logLevels, level)
}
