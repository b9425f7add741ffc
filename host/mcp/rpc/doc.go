// Package rpc implements a JSON-RPC connection of MCP with a client or with a server, over any
// transport that carries raw frames. Begin with [Conn]: a transport passes each frame to
// [Conn.Receive] together with the [Stream] of the frame, and [Conn.Submit] and [Conn.Call] make
// calls. Stdio and the legacy SSE transport have only the connection's main stream. Over streamable
// HTTP each POST is a separate stream, and the GET stream is the main stream.
//
// Package rpc itself handles ping, notifications/cancelled, notifications/progress, and the methods
// that report the end of a task. All other methods are passed to a [Handler].
package rpc
