package stateless

import (
	"net/http"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Check reads the envelope of a request, and checks that the named revision has the request. h are
// the headers of an HTTP request, or nil. The request is refused with the returned error.
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

// sameVersion checks that the header with the revision, if present, agrees with the envelope, if
// present. This check comes before all other checks: a request with two different revisions is not
// interpreted at all.
func sameVersion(h http.Header, params []byte) *wire.RPCError {
	named := h[envelope.HeaderVersion]
	body := envelope.Version(params)
	if body == "" || len(named) == 0 || len(named) == 1 && named[0] == body {
		return nil
	}
	return envelope.Mismatch("the header %s does not match the body", envelope.HeaderVersion)
}

// hasMethod reports whether a revision has a request. A revision may also have a request of an
// extension, which no known revision has.
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

// IsStateless reports whether a message is of this era, judged by the body alone. A request for
// server/discover is of this era even without an envelope: no other revision has server/discover.
func IsStateless(m wire.Message) bool {
	return m.Method == protocol.MethodDiscover && m.IsRequest() || m.Method != "" && envelope.IsPresent(m.Params)
}

// HeaderEra is the era of a request according to the header with the revision.
type HeaderEra int

const (
	// NoHeader: the request has no header. Clients send no header with initialize, and some old
	// clients with no request.
	NoHeader HeaderEra = iota
	// HandshakeHeader and StatelessHeader: the header names a revision of this era.
	HandshakeHeader
	StatelessHeader
	// UnknownHeader: the header names no known revision, or several revisions.
	UnknownHeader
)

// EraOfHeader returns the era according to the headers of a request.
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

// Contradicts returns the error for a request of this era, judged by the body, with a header of
// another revision; nil if header and body agree. A request is never interpreted in an era that
// only the header or only the body names.
func Contradicts(h http.Header, m wire.Message) *wire.RPCError {
	switch EraOfHeader(h) {
	case StatelessHeader, UnknownHeader: // which Check compares with the body
		return nil
	case HandshakeHeader:
		return envelope.Mismatch("the header %s does not match the body", envelope.HeaderVersion)
	}
	if !envelope.IsPresent(m.Params) {
		return nil // Check reports the missing header
	}
	return envelope.Mismatch("the header %s is missing", envelope.HeaderVersion)
}

// Status returns the HTTP status of an answer with a JSON-RPC error code. lacked means: this server
// does not have the method of the request. An error of a single call does not count (revision
// 2026-07-28, basic/transports/streamable-http, "Response Codes").
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

// mayAsk are the requests that a question can answer (revision 2026-07-28, basic/patterns/mrtr).
var mayAsk = []string{protocol.MethodToolsCall, protocol.MethodPromptsGet, protocol.MethodResourcesRead}

// MayAsk reports whether a question can answer a request with a method.
func MayAsk(method string) bool { return slices.Contains(mayAsk, method) }
