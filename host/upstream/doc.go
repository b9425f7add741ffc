// Package upstream holds the connections to MCP servers. An Upstream is one
// configured server: its life, from one start to the next, its handshake, lists
// and state. A link is one connection with it, over one of three transports. A
// Conn is one MCP client connection over a byte stream: an rpc.Conn that is the
// core of the stdio link, and of use alone, over pipes, as a raw client. Messages pass as raw
// bytes (package wire); only what the handshake and the listing need is read.
//
//	spec.go       Spec: how to reach a server
//	upstream.go   Options, Upstream: start, call, close
//	status.go     State, Status
//	life.go       the state machine of an Upstream
//	backoff.go    the delays before restarts
//	silent.go     checking whether a server still responds
//	start.go      handshake, listings, and what the server says on its own account
//	list.go       listing one surface
//	limit.go      the timeouts of a call
//	link.go       what a transport has to do; stdio.go the one over a process
//	handshake.go  initialize
//	conn.go       Conn: an rpc.Conn over a byte stream, and its goroutines
//	begin.go      calls that no goroutine waits for
//	flood.go      how much the server may send that nobody asked for
//	http*.go      streamable HTTP, with call.go, ids.go, tasks.go, owners.go, read.go
//	              and garbage.go; sse*.go legacy SSE
//	errors.go     the errors
//
// Its own packages know nothing of an Upstream: process runs a server as a
// subprocess, httpclient sends requests to one over HTTP, and oauth gets the
// access tokens for that.
package upstream
