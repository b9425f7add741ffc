package route

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// isAnonymous reports whether the clients of a session have no token. The clients of a session with
// many of them may then be different persons.
func isAnonymous(s Session) bool { return s.Principal() == "" }

// Anonymous returns the request for which a call of an upstream is made, if the client has no token
// and shares the session with other clients; nil for all other calls. While such a request is
// parked, a question of the upstream over the same connection can reach no client of another
// request.
//
// avoids reports that the call should and can avoid connections with calls of parked requests: some
// request of the session may be parked, and the call can be made over any connection with the
// server. The call is then the whole request, not a call of a script among several, and makes no
// task, about which further requests would follow.
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

// IsParked reports whether a request waits for answers of the client.
func IsParked(request Origin) bool { return standingOf(request) == Parked }
