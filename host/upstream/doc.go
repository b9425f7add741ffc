// Package upstream is the client side of one configured MCP server. An Upstream
// starts the server, or connects to it, does the handshake, reads its lists, makes
// calls, and starts it again when it ends. Each connection is a link (package
// link) over one of three transports. Messages pass as raw bytes (package wire);
// only what the handshake and the lists need is read.
//
//	spec.go       Spec: how to reach a server
//	upstream.go   Options, Upstream: start, call, close
//	submit.go     calls that no goroutine waits for
//	limit.go      how long a call may take
//	status.go     State, Status
//	life.go       the state machine of an Upstream
//	backoff.go    the delays before restarts
//	silent.go     checking whether a server still responds
//	start.go      handshake, lists, and what the server sends on its own account
//	handshake.go  initialize
//	list.go       reading one list
//	changes.go    changes of lists that the server announces
//	flood.go      how much the server may send that nobody asked for
//	link.go       making a link for a Spec
//	fallback.go   streamable HTTP first, then HTTP with SSE
//	stdio.go      the link to a subprocess
//	conn.go       Conn: a connection over a byte stream, also of use alone
//	errors.go     the errors
//
// Its own packages know nothing of an Upstream: streamable and legacysse are the
// links over HTTP, httpclient sends their requests, oauth gets the access tokens
// for that, and process runs a server as a subprocess.
package upstream
