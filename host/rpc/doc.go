// Package rpc is one JSON-RPC connection of MCP, in either direction: with a
// client or with a server, over any transport that carries raw frames.
//
//	conn.go     Conn: options, beginning and end
//	state.go    everything in flight, its invariants, and each change of it
//	stream.go   Stream and Frame: how messages get to the peer
//	call.go     requests of ours: Submit, Call, Notify, cancellation
//	limit.go    time limits of calls
//	receive.go  frames of the peer: answers, notifications, batches, garbage
//	progress.go progress of calls, and of tasks that outlive their call
//	request.go  requests of the peer
//	batch.go    JSON-RPC batches of revision 2025-03-26
//	workers.go  goroutines for requests that block
//	ids.go      ids and progress tokens of our requests
//	writer.go   Writer: a Stream over an io.Writer
//	reader.go   reading a byte stream of newline-delimited messages
//	garbage.go  excerpts of messages that are too long
//
// A transport pushes what it reads into the connection: [Conn.Receive] takes
// one frame and the [Stream] that it came on. Messages to the peer go to a
// Stream: the connection's main one, or the one of the request that they belong
// to. Stdio and the legacy SSE transport have only the main stream; over
// streamable HTTP each POST is a stream of its own, and the GET stream is the
// main one.
//
// [Conn.Submit] is the asynchronous core: it never blocks, and the outcome goes
// to a [wire.CompletionFunc]. [Conn.Call] is Submit and a wait. No goroutine is
// started for a call.
//
// Package rpc knows the methods that are about requests (ping,
// notifications/cancelled, notifications/progress, and what tells of the end of
// a task); all others go to a [Handler].
package rpc
