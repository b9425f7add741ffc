package stateless

import (
	"net/http"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Check reads the envelope of a request, and checks that the revision it names has the
// request. h are its headers if it came over HTTP, else nil. The error is the one with
// which the request is refused.
func Check(h http.Header, m wire.Message) (envelope.Envelope, *wire.RPCError) {
	if bad := sameVersion(h, m.Params); bad != nil {
		return envelope.Envelope{}, bad
	}
	e, bad := envelope.Parse(m.Params)
	if bad == nil && h != nil && e.Revision.Has(protocol.StandardHeaders) {
		bad = envelope.CheckHeaders(h, m.Method, m.Params)
	}
	if bad == nil && !hasMethod(e.Revision, m.Method) {
		bad = wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", m.Method)
	}
	return e, bad
}

// sameVersion checks that the header with the revision, if there is one, names the same
// as the envelope, if there is one. It comes before all other checks: a request that says
// two things is not interpreted at all.
func sameVersion(h http.Header, params []byte) *wire.RPCError {
	named := h[envelope.HeaderVersion]
	body := envelope.Version(params)
	if body == "" || len(named) == 0 || len(named) == 1 && named[0] == body {
		return nil
	}
	return envelope.Mismatch("the header %s does not match the body", envelope.HeaderVersion)
}

// hasMethod reports whether a revision has a request. It may also have one that no
// revision we know has, of an extension.
func hasMethod(r protocol.Revision, method string) bool {
	if m, ok := r.Method(protocol.Client, method); ok {
		return m.Kind == protocol.Request
	}
	if protocol.IsTaskRequest(method) {
		return true
	}
	_, removed := protocol.FindMethod(protocol.Client, method)
	_, other := protocol.FindMethod(protocol.Server, method)
	return !removed && !other
}

// IsStateless reports whether a message is of this era, judged by its body alone. A
// request for server/discover is, even if its envelope is missing: no other revision has
// it.
func IsStateless(m wire.Message) bool {
	return m.Method == protocol.MethodDiscover && m.IsRequest() || m.Method != "" && envelope.IsPresent(m.Params)
}

// HeaderEra is what the header with the revision says about the era of a request.
type HeaderEra int

const (
	// NoHeader: there is none. Clients send it in no initialize request, and some old
	// ones in no request.
	NoHeader HeaderEra = iota
	// HandshakeHeader and StatelessHeader: it names a revision of that era.
	HandshakeHeader
	StatelessHeader
	// UnknownHeader: it names none that we know, or several.
	UnknownHeader
)

// EraOfHeader returns what the headers of a request say.
func EraOfHeader(h http.Header) HeaderEra {
	named := h[envelope.HeaderVersion]
	if len(named) == 0 {
		return NoHeader
	}
	for _, name := range named[1:] {
		if name != named[0] {
			return UnknownHeader
		}
	}
	revision, ok := protocol.Lookup(named[0])
	switch {
	case named[0] == "":
		return NoHeader
	case !ok:
		return UnknownHeader
	case revision.Era() == protocol.Stateless:
		return StatelessHeader
	}
	return HandshakeHeader
}

// Contradicts returns the error for a request of this era, judged by its body, whose
// header says something else; nil if they agree. A request is never interpreted in an era
// that it does not name twice.
func Contradicts(h http.Header, m wire.Message) *wire.RPCError {
	switch EraOfHeader(h) {
	case StatelessHeader, UnknownHeader: // which Check compares with the body
		return nil
	case HandshakeHeader:
		return envelope.Mismatch("the header %s does not match the body", envelope.HeaderVersion)
	}
	if !envelope.IsPresent(m.Params) {
		return nil // Check says what is missing
	}
	return envelope.Mismatch("the header %s is missing", envelope.HeaderVersion)
}

// Status returns the HTTP status of an answer with a JSON-RPC error of that code. lacked
// says that this server does not have the method of the request. Whatever is wrong with a
// single call does not count (revision 2026-07-28, basic/transports/streamable-http,
// "Response Codes").
func Status(code int, lacked bool) int {
	switch code {
	case wire.CodeMethodNotFound:
		if lacked {
			return http.StatusNotFound
		}
	case protocol.CodeMissingCapability, protocol.CodeHeaderMismatch, protocol.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// mayAsk are the requests that can be answered with a question (revision 2026-07-28,
// basic/patterns/mrtr).
var mayAsk = []string{protocol.MethodToolsCall, protocol.MethodPromptsGet, protocol.MethodResourcesRead}

// MayAsk reports whether a request of that method can be answered with a question.
func MayAsk(method string) bool { return slices.Contains(mayAsk, method) }
