package streamable

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Headers of the transport.
const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	resumeHeader  = "Last-Event-Id"
)

// Values of Content-Type, shared by all answers.
var (
	jsonType        = []string{"application/json"}
	eventStreamType = []string{"text/event-stream"}
)

// refusal is an HTTP error status with a JSON-RPC error as the body.
type refusal struct {
	status int
	code   int // JSON-RPC
	text   string
}

// Refusals of requests without a session.
var (
	missingSession = refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "the Mcp-Session-Id header is missing (begin with initialize)"}
	noSession      = refusal{http.StatusNotFound, protocol.CodeSessionNotFound, "session not found (it has ended; begin a new one with initialize)"}
)

// noToken is the refusal of a request without an accepted token.
var noToken = refusal{http.StatusUnauthorized, protocol.CodeHTTPRefused, "a valid bearer token is required"}

// malformed is the refusal of a message refused by wire.Parse.
func malformed(err error) *refusal {
	r := refusal{http.StatusBadRequest, wire.CodeInvalidRequest, err.Error()}
	var bad *wire.RPCError
	if errors.As(err, &bad) {
		r.code, r.text = bad.Code, bad.Message
	}
	return &r
}

// refuse answers with a JSON-RPC error; id may be nil.
func (h *Handler) refuse(w http.ResponseWriter, id []byte, r refusal) {
	if r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, r.status, wire.Response(id, wire.Reply{Error: wire.Errorf(r.code, "%s", r.text).Raw()}))
}

// refuseUnread refuses a request with a partly read body, and closes the connection.
func (h *Handler) refuseUnread(w http.ResponseWriter, r *http.Request, bad refusal) {
	if r.ContentLength != 0 {
		// The server skips the rest of the body, but not for long.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyGrace))
		if r.ProtoMajor == 1 { // in HTTP/2 this would end other requests
			w.Header()["Connection"] = []string{"close"}
		}
	}
	h.refuse(w, nil, bad)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client has disconnected
}

// allowCORS lets the scripts of a web page use the endpoint.
func allowCORS(header http.Header, r *http.Request) {
	header.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	header.Set("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", sessionHeader)
	header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	header.Set("Access-Control-Allow-Headers", strings.Join(append(
		[]string{"Accept", "Authorization", "Content-Type", resumeHeader, versionHeader, sessionHeader, envelope.HeaderMethod, envelope.HeaderName},
		argumentHeaders(r)...), ", "))
	header.Set("Access-Control-Max-Age", "600")
}

// maxArgumentHeaders bounds the result of argumentHeaders.
const maxArgumentHeaders = 64

// argumentHeaders returns the headers for arguments of tools that the script of a web page asks
// for; the tool decides which headers exist.
func argumentHeaders(r *http.Request) []string {
	var all []string
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if strings.HasPrefix(name, envelope.HeaderParam) && !strings.ContainsAny(name, " \t") && len(all) < maxArgumentHeaders {
			all = append(all, name)
		}
	}
	return all
}

// accepts reports whether the client accepts a media type. A client without Accept
// header accepts all.
func accepts(r *http.Request, kind, subtype string) bool {
	values := r.Header["Accept"]
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			part, _, _ = strings.Cut(part, ";")
			k, s, _ := strings.Cut(strings.TrimSpace(part), "/")
			if (k == "*" || strings.EqualFold(k, kind)) && (s == "*" || strings.EqualFold(s, subtype)) {
				return true
			}
		}
	}
	return len(values) == 0
}

// prefersEvents reports whether the client names event streams before JSON. Clients with this order
// expect an event stream in any case.
func prefersEvents(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	events := strings.Index(accept, "text/event-stream")
	plain := strings.Index(accept, "application/json")
	return events >= 0 && (plain < 0 || events < plain)
}

// isJSON reports whether the body of r is declared as JSON.
func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// isCompressed reports whether the body of r is declared as compressed. Compressed bodies are
// refused: a few bytes could expand to any number.
func isCompressed(r *http.Request) bool {
	encoding := r.Header.Get("Content-Encoding")
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// maxQuoted bounds the part of a header that logs and errors quote, in bytes.
const maxQuoted = 64
