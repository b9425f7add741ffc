package route

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// logLevels are the severities of log messages, least first (revision
// 2025-11-25, server/utilities/logging).
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// usualLevel is what a session gets that never asked for a level, where others
// have: their upstream speaks at a level that this session did not choose.
const usualLevel = "info"

// setLevel sets the least level of the messages that the session gets. Each
// upstream is told the most verbose level of all sessions.
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
	all := r.offering(s, "logging") // the others are told when they are ready
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
	if len(replies) > 0 {
		return replies[0]
	}
	return empty()
}

// tellLevel sets the level of one upstream. It decides on it when its turn has
// come, so that the upstream is left with the one that counts. Again: also if
// it is what the upstream was told last.
func (r *Router) tellLevel(ctx context.Context, call Call, c reached, again bool) wire.Reply {
	release, err := r.leveling.take(ctx, c.place())
	if err != nil {
		return fail(wire.CodeInternal, "%s: %v", call.Method, err)
	}
	defer release()
	level := r.levelFor(c.place())
	r.mu.Lock()
	told := r.levels[c.place()] == level
	r.mu.Unlock()
	if level == "" || told && !again {
		return empty()
	}
	params, err := wire.Set(call.Params, wire.Quote(level), "level")
	if err != nil {
		return fail(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	reply := r.forward(ctx, call, c, params)
	if reply.Error == nil {
		r.mu.Lock()
		r.levels[c.place()] = level
		r.mu.Unlock()
	}
	return reply
}

// levelFor is the most verbose level that a session of the connection asked
// for; "" when none did.
func (r *Router) levelFor(at place) string {
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

// relevel tells upstreams of a level that is no longer that of any session.
func (r *Router) relevel() {
	r.mu.Lock()
	told := make(map[place]string, len(r.levels))
	for at, level := range r.levels {
		told[at] = level
	}
	r.mu.Unlock()
	for at, level := range told {
		if want := r.levelFor(at); want != "" && want != level {
			r.levelAgain(at)
		}
	}
}

// levelAgain tells an upstream its level on nobody's request.
func (r *Router) levelAgain(at place) {
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

// Listens tells whether a session has asked for messages of a level.
func (r *Router) Listens(s Session, level string) (wanted bool) {
	r.with(s, func(c *client) {
		least := slices.Index(logLevels, c.level)
		wanted = least >= 0 && slices.Index(logLevels, level) >= least
	})
	return wanted
}

// listeners are the sessions that want a message of a level.
func (r *Router) listeners(at place, level string) []Session {
	severity := slices.Index(logLevels, level)
	return r.sessions(func(c *client) bool {
		return (at.own == nil || at.own == c.session) && (severity < 0 || severity >= r.least(c, at))
	})
}

// least is the index of the level from which on a client gets messages. The
// caller holds r.mu.
func (r *Router) least(c *client, at place) int {
	level := c.level
	if _, told := r.levels[at]; level == "" && told {
		level = usualLevel
	}
	return slices.Index(logLevels, level)
}
