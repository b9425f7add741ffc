package route

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// isAnonymous reports whether the clients of a session have no token. If it has many of
// them, they may be anybody.
func isAnonymous(s Session) bool { return s.Principal() == "" }

// Anonymous returns the request that a call of an upstream is made for, if its client has
// no token and shares its session with others. Nil for all other calls. While one such
// request is parked, what the upstream asks over the same connection can reach no client
// of another.
//
// avoids says that the call should avoid connections with calls of parked requests, and
// can: some request of the session may be parked, and the call can be made over any
// connection with the server. It is the whole request, not one of several calls of a
// script, and makes no task, about which there will be further requests.
func Anonymous(call wire.Call) (request Origin, avoids bool) {
	o, ok := call.Owner.(Origin)
	if !ok {
		return nil, false
	}
	s := o.Session()
	if !hasManyClients(s) || !isAnonymous(s) {
		return nil, false
	}
	request = requestOf(o)
	busy, known := s.(interface{ Busy() bool })
	return request, request == o && (!known || busy.Busy()) && slices.Contains(mayAsk, call.Method) && !has(call.Params, "task")
}

// IsParked reports whether a request waits for answers of its client.
func IsParked(request Origin) bool { return standingOf(request) == Parked }
