package protocol

// The error codes of MCP. The codes of JSON-RPC 2.0 are in package wire.
const (
	// CodeResourceNotFound means that no resource has the given URI (revision 2025-11-25,
	// server/resources, "Error Handling").
	CodeResourceNotFound = -32002
	// CodeURLElicitationRequired means that the user has to visit a page first (revision
	// 2025-11-25, client/elicitation, "URL Elicitation Required Error").
	CodeURLElicitationRequired = -32042
	// CodeHeaderMismatch means that a header of a request over HTTP is missing, malformed, or
	// differs from the body (revision 2026-07-28, basic/transports/ streamable-http, "Standard
	// Headers").
	CodeHeaderMismatch = -32020
	// CodeMissingCapability means that a request needs a capability which the request does not
	// declare (revision 2026-07-28, schema, MissingRequiredClientCapabilityError).
	CodeMissingCapability = -32021
	// CodeUnsupportedVersion means that the server does not support the revision of a request
	// (revision 2026-07-28, basic/versioning).
	CodeUnsupportedVersion = -32022
)

// Error codes of the streamable HTTP transport. The specification does not define them; the
// TypeScript SDK sends these codes (typescript-sdk, server/streamableHttp.ts).
const (
	CodeHTTPRefused     = -32000 // the HTTP request is refused
	CodeSessionNotFound = -32001 // the session has ended or never existed
)

// IsReservedCode reports whether JSON-RPC 2.0 defines an error code, or leaves it to
// implementations of servers ("Error object").
func IsReservedCode(code int) bool {
	return code == -32700 || -32603 <= code && code <= -32600 || -32099 <= code && code <= -32000
}
