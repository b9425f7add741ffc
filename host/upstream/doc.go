// Package upstream holds the connections to MCP servers. An Upstream is one
// configured server: its process, handshake, tool list and state. A Conn is
// one MCP client connection over a byte stream, and of use alone, over pipes,
// as a raw client. Messages pass as raw bytes (package wire); only what the
// handshake and the listing need is read.
//
//	upstream.go   Spec, Options, Upstream: start, call, status, close
//	life.go       the state machine of an Upstream
//	tools.go      listing tools
//	handshake.go  initialize
//	conn.go       Conn: its goroutines and its end
//	call.go       requests of ours: progress, cancel
//	read.go       the read loop: answers, notifications, requests of the server
//	writer.go     the write goroutine
//	garbage.go    what is no usable message
//	process*.go   the server's process and its group
//	environ.go    the environment a server gets, and where its command is
//	stderr.go     what a server writes to stderr
//	errors.go     the errors
package upstream
