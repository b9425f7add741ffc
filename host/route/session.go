package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Origin is what messages to a client belong to: one request of the client, or
// (Session) the session as a whole. Implementations are pointers, so that
// origins can be compared, and safe for concurrent use.
type Origin interface {
	// Session whose request it is.
	Session() Session
	// Notify writes a notification to the client, next to the answer of the
	// request where the transport has a stream for each. It does not wait for
	// the client. Once the request has been answered, it is the session's.
	Notify(method string, params []byte)
	// Ask sends a request to the client and waits for the answer, a result or a
	// JSON-RPC error. Params' progress token is replaced, as in wire.Call. When
	// ctx ends first, the client gets notifications/cancelled and the error is
	// the cause of ctx; wire.ErrClosed when the session ends; ErrNotListening
	// when there is no stream that would take the request to the client.
	Ask(ctx context.Context, call wire.Call) (wire.Reply, error)
}

// Session is the client's end of a session.
type Session interface {
	Origin
	// ID names the session in records. It is made for them and opens nothing,
	// unlike a transport's session id.
	ID() string
	// Client is the raw params object of the client's initialize request.
	Client() []byte
	// Revision is the negotiated protocol revision.
	Revision() protocol.Revision
	// MaySave tells whether the client may save and delete tools. That can change
	// in the life of a session.
	MaySave() bool
	// Changed tells the client that a list is another. It does not block;
	// several calls may become one notification.
	Changed(surface wire.Surface)
}

// MaySave tells whether whoever a message belongs to may save and delete tools: not
// if it is a client that may not. The origin may be nil.
func MaySave(o Origin) bool {
	s := sessionOf(o)
	return s == nil || s.MaySave()
}

// Call is one request of a client.
type Call struct {
	Method string
	// Origin of the request; never nil.
	Origin Origin
	// Params is the raw params object; nil if absent.
	Params []byte
	// Progress takes the raw params object of a progress notification; the
	// receiver puts the client's own progressToken into it. It returns when
	// the notification is handed to the client's stream, and is safe for
	// concurrent use. Nil when the client did not ask for progress.
	Progress func(params []byte)
}

// Welcome is what the answer to initialize says of the server behind a
// session, beside its name and revision.
type Welcome struct {
	Capabilities []byte // raw object
	Instructions string
	Meta         []byte // raw object; nil for none
}
