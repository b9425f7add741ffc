package route

import (
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// onBehalf sets for which client a call is made; a nil origin is no client. Each call
// that is made because of a request has its origin, so that an upstream without
// sessions learns exactly what this client can do.
func (r *Router) onBehalf(call *wire.Call, o Origin) {
	if o == nil {
		return
	}
	call.Owner, call.Group, call.Client, call.LogLevel = o, o.Session(), o.Client(), r.logLevel(o)
}

// errNoRights says that the token of a client is no longer accepted.
var errNoRights = errors.New("the token of its client is no longer valid")

// present is the wire.Permit of a request about something that an earlier request of a client
// has begun, such as a task: it is sent as long as the token of the client is accepted. What a
// task may do was decided when its tool was called. A nil session is no client.
type present struct{ session Session }

// Permitted implements wire.Permit.
func (p present) Permitted() error {
	if RightsOf(p.session) == bearer.Nothing {
		return errNoRights
	}
	return nil
}

// logLevel returns the lowest level of the log messages that belong to a request, ""
// for none: the level in the request, or the one that its session has set.
func (r *Router) logLevel(o Origin) (level string) {
	switch {
	case o.Revision().Has(protocol.RequestLogLevel):
		level = o.LogLevel()
	case r.hasLevels.Load():
		r.with(o.Session(), func(c *client) { level = c.level })
	}
	return level
}
