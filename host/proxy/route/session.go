package route

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Origin is a request of the client to which a message to the client belongs, or the session as a
// whole (see Session). Implementations are pointers, so that origins can be compared. They are safe
// for concurrent use.
type Origin interface {
	// Session returns the session of the request. In the stateless era, all requests with the same
	// credentials have the same session.
	Session() Session
	// Revision returns the protocol revision of the request.
	Revision() protocol.Revision
	// Client returns the client's description of itself, in the form of the params of initialize: a
	// raw object with capabilities and clientInfo. In the stateless era, the requests of a session
	// can differ in this description.
	Client() []byte
	// LogLevel returns the lowest level of log messages in the request; "" for none. In the
	// handshake era the result is always "": logging/setLevel sets the level of a session.
	LogLevel() string
	// Notify sends the client a notification. If the transport has a stream for each request,
	// Notify uses the stream of the request, or the stream of the session once the request is
	// answered. Notify does not wait for the client.
	Notify(method string, params []byte)
	// Ask sends a request to the client and waits for the answer, a result or a JSON-RPC error. The
	// progress token in the params is replaced, as in wire.Call. If ctx ends first, the client gets
	// notifications/cancelled and the error is the cause of ctx. The error is wire.ErrClosed if the
	// session ends, and ErrNotListening if the client has no stream open for the request, and
	// ErrAsksLater if the request ends to ask the client by a result.
	Ask(ctx context.Context, call wire.Call) (wire.Reply, error)
}

// Session is the client's end of a session.
type Session interface {
	Origin
	// ID identifies the session in records. Unlike a transport's session id, ID gives no access to
	// anything.
	ID() string
	// Principal identifies the client's credentials, also after a restart. Clients without
	// credentials and the only client over stdio have "". Principal gives no access to anything.
	Principal() string
	// TokenName returns the name of the client's token in the configuration; "" for none. The name
	// can change during a session.
	TokenName() string
	// Rights are the rights of the client; nil: all rights that the configuration gives to clients.
	// Rights can change during a session.
	Rights() *bearer.Rights
	// Changed tells the client that a list has changed. notice is the raw params of the upstream's
	// notification of the change, nil for none. Changed does not block. Several calls may become a
	// single notification, which has a notice only if all of them have the same.
	Changed(surface wire.Surface, notice []byte)
}

// BudgetKey returns the owner in a budget.Budget of the memory of a session: the bytes of the
// session are bounded, and the bytes of all sessions of the same principal. A nil session is the
// host itself.
func BudgetKey(s Session) any {
	if s == nil {
		return nil
	}
	if p := s.Principal(); p != "" {
		return budget.Member{Group: p, Of: s}
	}
	return s
}

// MaySave reports whether the client of an origin may save and delete tools. The result is true for
// a nil origin, which has no client.
func MaySave(o Origin) bool {
	return RightsOf(sessionOf(o)).MaySave()
}

// Call is a request of a client.
type Call struct {
	Method string
	// Origin of the request; never nil.
	Origin Origin
	// Params is the raw params object; nil if absent.
	Params []byte
	// Progress sends a progress notification with raw params, into which Progress puts the client's
	// own progressToken. The return means that the client's stream has taken the notification.
	// Progress is safe for concurrent use, and nil if the client has not asked for progress.
	Progress func(params []byte)

	// Began, if set, is called by the Handler of a composite tool or of code when the beginning of
	// the run with an id is on disk, with the start of the run. Began does not block.
	Began func(run string, start time.Time)

	// Resume is set if the client answers the questions of a run of a composite tool.
	Resume *Resume

	// Version is the policy.Request.Version of the saved tool that may be called: the Handler must
	// not run another version. "" if the version does not matter.
	Version string

	// Set by Router.receive for requests of the stateless era.
	sent   []byte      // Params as the client has sent them
	inputs wire.Inputs // of the client
	visits string      // the ids of the elicitations answered by the client; see visit.go
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
