package route

import (
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// onBehalf sets the client for which a call is made; a nil origin is no client. Each call made
// because of a request has the origin of the request, so that an upstream without sessions learns
// exactly the capabilities of this client.
func (r *Router) onBehalf(call *wire.Call, o Origin) {
	if o == nil {
		return
	}
	call.Owner, call.Group, call.Client, call.LogLevel = o, o.Session(), o.Client(), r.logLevel(o)
}

// errNoRights is the error of a request whose client has a token that is no longer accepted.
var errNoRights = errors.New("the token of its client is no longer valid")

// present is the wire.Permit of a request about a task or another thing begun by an earlier request
// of a client: the request is sent as long as the token of the client is accepted. The rights of a
// task were decided when the tool was called. A nil session is no client.
type present struct{ session Session }

// Permitted implements wire.Permit.
func (p present) Permitted() error {
	if RightsOf(p.session) == bearer.Nothing {
		return errNoRights
	}
	return nil
}

// logLevel returns the lowest level of the log messages that belong to a request, "" for none: the
// level in the request, or the level set by the session.
func (r *Router) logLevel(o Origin) (level string) {
	switch {
	case o.Revision().Has(protocol.RequestLogLevel):
		level = o.LogLevel()
	case r.hasLevels.Load():
		r.with(o.Session(), func(c *client) { level = c.level })
	}
	return level
}
