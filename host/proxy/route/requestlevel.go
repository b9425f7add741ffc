package route

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// levelTime is how long a request waits until upstreams have been told the level of log messages in
// the request.
const levelTime = 2 * time.Second

// lowersLevel reports whether a request of the stateless era asks for a lower level of log messages
// than all earlier requests of the session. Upstreams of the handshake era must then be told, with
// [Router.lowerLevel]. They keep the level until the session ends, so that they are not told for
// each request. The level of each request decides about the messages for the request.
func (r *Router) lowersLevel(o Origin) bool {
	wanted := slices.Index(logLevels, requestLevel(o))
	if wanted < 0 {
		return false
	}
	lowers := false
	r.with(o.Session(), func(c *client) { lowers = c.level == "" || wanted < slices.Index(logLevels, c.level) })
	return lowers
}

// requestLevel returns the level in a request, "" for none and in the handshake era.
func requestLevel(o Origin) string {
	if o == nil || !o.Revision().Has(protocol.RequestLogLevel) {
		return ""
	}
	return o.LogLevel()
}

// lowerLevel tells upstreams the level in a request.
func (r *Router) lowerLevel(ctx context.Context, o Origin) {
	if !r.lowersLevel(o) {
		return
	}
	s := o.Session()
	ctx, cancel := context.WithTimeout(ctx, levelTime)
	defer cancel()
	level := o.LogLevel()
	r.with(s, func(c *client) {
		if c.level == "" || slices.Index(logLevels, level) < slices.Index(logLevels, c.level) {
			c.level = level
		}
	})
	var asked sync.WaitGroup
	for _, c := range r.offering(s, "logging") { // other upstreams are told when they are ready
		asked.Go(func() {
			if reply := r.tellLevel(ctx, Call{Method: protocol.MethodSetLevel, Origin: s}, c, false); reply.Error != nil {
				r.Log.Debug("log level not set", "upstream", c.server, "err", wire.ParseError(reply.Error))
			}
		})
	}
	asked.Wait()
}

// levelBefore tells an upstream the level in a request before the request reaches the upstream.
// lowerLevel tells only running upstreams; levelBefore is for an upstream that starts now, perhaps
// because of this request.
func (r *Router) levelBefore(ctx context.Context, o Origin, to serverConn) {
	if !r.lacksLevel(o, to) || to.Ready(ctx) != nil { // the request will report why the upstream is not ready
		return
	}
	if has, _ := to.offers("logging"); !has {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTime)
	defer cancel()
	if reply := r.tellLevel(ctx, Call{Method: protocol.MethodSetLevel, Origin: o.Session()}, to, false); reply.Error != nil {
		r.Log.Debug("log level not set", "upstream", to.server, "err", wire.ParseError(reply.Error))
	}
}

// lacksLevel reports whether a request asks for log messages of a level that the upstream may not
// have been told.
func (r *Router) lacksLevel(o Origin, to serverConn) bool {
	wanted := slices.Index(logLevels, requestLevel(o))
	if wanted < 0 {
		return false
	}
	if has, known := to.offers("logging"); known && !has {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	told := slices.Index(logLevels, r.levels[to.key()])
	return told < 0 || told > wanted
}
