// Package servers is the client side of one configured MCP server. An Upstream
// starts the server, or connects to it, does the handshake, reads its lists, makes
// calls, and restarts the server when it ends. Each connection is a link (package
// link) over one of three transports. Messages are passed on as raw bytes (package
// wire); only what the handshake and the lists need is decoded.
//
//	spec.go       Spec: how to reach a server
//	upstream.go   Options, Upstream: start, call, close
//	submit.go     calls that no goroutine waits for
//	limit.go      how long a call may take
//	status.go     State, Status
//	life.go       the state machine of an Upstream
//	backoff.go    the delays before restarts
//	silent.go     checking whether a server still responds
//	start.go      handshake, and the server's requests and notifications
//	handshake.go  initialize
//	era.go        which era the server speaks
//	probe.go      asking a server about that over a connection of its own
//	list.go       reading one list
//	listings.go   reading all lists side by side
//	changes.go    changes of lists that the server announces
//	flood.go      limits on what the server sends unsolicited
//	link.go       making a link for a Spec
//	fallback.go   streamable HTTP first, then HTTP with SSE
//	errors.go     the errors
//	observe.go    Observer: telemetry of connections
//
// The packages below know nothing of an Upstream: stdio, streamable and legacysse
// are the links, stateless is a link over one of them for servers without a handshake,
// process runs a server as a subprocess, httpclient sends requests
// over HTTP, and oauth gets their access tokens.
package servers
