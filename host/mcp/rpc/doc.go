// Package rpc implements a JSON-RPC connection of MCP with a client or with a server,
// over any transport that carries raw frames.
//
//	conn.go     Conn: options, start and end
//	state.go    everything in flight, its invariants, and each change of it
//	stream.go   Stream and Frame: sending messages to the peer
//	call.go     our requests: Submit, Call, Notify, cancellation
//	limit.go    time limits of calls
//	receive.go  frames of the peer: answers, notifications, batches, garbage
//	progress.go progress of calls, and of tasks that outlive their call
//	request.go  requests of the peer
//	memory.go   counting the bytes of requests and answers
//	batch.go    JSON-RPC batches of revision 2025-03-26
//	workers.go  goroutines for requests that block
//	owners.go   which calls a message of the peer may belong to
//	ids.go      ids and progress tokens of our requests
//	writer.go   Writer: a Stream over an io.Writer
//	reader.go   reading a byte stream of newline-delimited messages
//	garbage.go  excerpts of messages that are too long
//	trace.go    Tracer: telemetry of calls and requests
//
// A transport passes what it reads to the connection: [Conn.Receive] takes one frame
// and the [Stream] that it came on. Messages to the peer are sent on a Stream: the
// connection's main one, or that of the request that they belong to. Stdio and the
// legacy SSE transport have only the main stream. Over streamable HTTP each POST is a
// stream of its own, and the GET stream is the main one.
//
// [Conn.Submit] makes a call without blocking and passes the outcome to a
// [wire.CompletionFunc]. [Conn.Call] also waits for the outcome. Neither starts a
// goroutine.
//
// Package rpc handles the methods that are about requests itself: ping,
// notifications/cancelled, notifications/progress, and those that report the end of
// a task. All others are passed to a [Handler].
package rpc
