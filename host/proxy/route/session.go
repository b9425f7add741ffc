package route

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Origin is what a message to a client belongs to: a request of the client, or the
// session as a whole (see Session). Implementations are pointers, so that origins can
// be compared. They are safe for concurrent use.
type Origin interface {
	// Session returns the session of the request. In the stateless era it is the one of
	// all requests with the same credentials.
	Session() Session
	// Revision returns the protocol revision of the request.
	Revision() protocol.Revision
	// Client returns what the client says about itself, in the form of the params of
	// initialize: a raw object with its capabilities and clientInfo. In the stateless
	// era that can differ between requests of a session.
	Client() []byte
	// LogLevel returns the lowest level of the log messages that the request asks for; ""
	// for none. In the handshake era that is always "": there logging/setLevel sets the
	// level of a session.
	LogLevel() string
	// Notify sends the client a notification. If the transport has a stream for each
	// request, it uses the one of the request, or that of the session once the request
	// is answered. It does not wait for the client.
	Notify(method string, params []byte)
	// Ask sends a request to the client and waits for the answer, a result or a
	// JSON-RPC error. The progress token in the params is replaced, as in wire.Call. If
	// ctx ends first, the client gets notifications/cancelled and the error is the
	// cause of ctx. The error is wire.ErrClosed if the session ends, and
	// ErrNotListening if the client has no stream open for the request, and ErrAsksLater
	// if the request ends so that its result can ask the client.
	Ask(ctx context.Context, call wire.Call) (wire.Reply, error)
}

// Session is the client's end of a session.
type Session interface {
	Origin
	// ID identifies the session in records. Unlike a transport's session id, it gives
	// no access to anything.
	ID() string
	// Principal identifies the client's credentials, also after a restart. It is "" for
	// clients without credentials, and of the only client over stdio. It gives no access
	// to anything.
	Principal() string
	// TokenName returns the name of the client's token in the configuration; "" for none.
	// It can change during a session.
	TokenName() string
	// Rights are what the client may do; nil: all that the configuration gives to clients.
	// They can change during a session.
	Rights() *bearer.Rights
	// Changed tells the client that a list has changed. notice is the raw params of
	// the notification with which an upstream announced that, nil for none. Changed
	// does not block. Several calls may become one notification, which has a notice
	// only if they all have the same.
	Changed(surface wire.Surface, notice []byte)
}

// BudgetKey returns the owner in a budget.Budget of what a session has: its bytes are bounded,
// and those of all sessions of its principal. No session is the host itself.
func BudgetKey(s Session) any {
	if s == nil {
		return nil
	}
	if p := s.Principal(); p != "" {
		return budget.Member{Group: p, Of: s}
	}
	return s
}

// MaySave reports whether the client of an origin may save and delete tools. It is true
// for a nil origin, for which there is no client.
func MaySave(o Origin) bool {
	return RightsOf(sessionOf(o)).MaySave()
}

// Call is one request of a client.
type Call struct {
	Method string
	// Origin of the request; never nil.
	Origin Origin
	// Params is the raw params object; nil if absent.
	Params []byte
	// Progress sends a progress notification with raw params, in which it sets the
	// client's own progressToken. It returns when the client's stream has taken the
	// notification. It is safe for concurrent use, and nil if the client has not asked
	// for progress.
	Progress func(params []byte)

	// Began, if set, is called by the Handler of a composite tool or of code when the
	// beginning of the run with that id is on disk, with its start. It does not block.
	Began func(run string, start time.Time)

	// Resume is set if the client answers what a run of a composite tool has asked.
	Resume *Resume

	// Version is the policy.Request.Version of the saved tool that may be called: its Handler
	// must not run another one. "" if that does not matter.
	Version string

	// Set by Router.receive for requests of the stateless era.
	sent   []byte      // Params as the client has sent them
	inputs wire.Inputs // of the client
	visits string      // the ids of the elicitations that the client has answered; see visit.go
}

// Resume is a run of a composite tool that ended with questions, and the client's answers.
type Resume struct {
	Run       string // id
	Responses []byte // raw object with the answers by the names of the questions; nil for none
	// Elsewhere describes another replica that made the run and cannot be asked; "" for none.
	Elsewhere string
}

// InitializeResult is the result of initialize without the revision and the name of the
// server.
type InitializeResult struct {
	Capabilities []byte // raw object
	Instructions string
	Meta         []byte // raw object; nil for none
}
