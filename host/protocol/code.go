package protocol

// Error codes that MCP defines. Those of JSON-RPC 2.0 itself are in package
// wire.
const (
	// CodeResourceNotFound says that there is no resource with a URI (revision
	// 2025-11-25, server/resources, "Error Handling").
	CodeResourceNotFound = -32002
	// CodeURLElicitationRequired says that a person has to visit a page first
	// (revision 2025-11-25, client/elicitation, "URL Elicitation Required
	// Error").
	CodeURLElicitationRequired = -32042
)

// Error codes of the streamable HTTP transport. The specification leaves them
// open; these are what the TypeScript SDK sends (typescript-sdk,
// server/streamableHttp.ts).
const (
	CodeHTTPRefused     = -32000 // the request is refused as it is
	CodeSessionNotFound = -32001 // the session has ended, or never was
)
