// Package mcptest provides raw peers for tests: an MCP server and an MCP client
// that exchange JSON-RPC as bytes, over stdio, streamable HTTP (revision
// 2025-11-25, basic/transports) and the older HTTP+SSE (revision 2024-11-05). Both
// also speak the stateless era (revision 2026-07-28).
// Neither decodes more of a message than it must, so both show how a proxy
// between them changes it. They share only host/mcp/wire's parsing of one message
// with the product. Only tests and scripts/soak import this package.
//
// The server. Its behaviour depends on a [ServerOptions] value and on the arguments of
// its tools:
//
//	options.go      ServerOptions, Fault; Main makes a test binary a server
//	server.go       Server, and one session with a client
//	methods.go      its answer to each method
//	tools.go        its tools: echo, count, wait, ask, ...
//	definitions.go  the items of its lists, and its exotic results
//	tasks.go        tasks (revision 2025-11-25)
//	extension.go    tasks of the extension of the stateless era
//	stateless.go    the stateless era: server/discover, questions in results, refusals
//	subscriptions.go  subscriptions/listen
//	faults.go       misbehaviour of servers
//	stream.go       streams of messages to the client: lines, or events
//	servestdio.go, servehttp.go, servesse.go  the transports
//	statelesshttp.go  the stateless era over HTTP; Envelope, for clients of that era
//	observer.go     shows tests what servers in other processes receive
//
// The client:
//
//	client.go       Client: its requests, and its answers to the server's
//	clientstdio.go, clienthttp.go, clientsse.go  the transports
//	sse.go          reading server-sent events
//
// Both record what they receive in a [Log] (log.go). [LineWriter] is for tests with a
// peer of their own (linewriter.go). [Buffer] collects text, such as the log of a proxy
// (buffer.go). [Receive] and [Bounded] wait no longer than a minute (await.go). [Diff] compares JSON token by token (compare.go). [Items] is the fidelity
// list: exchanges that must look the same through a proxy as without one.
//
//	items.go         Item; Pair: a client, and the log of its server
//	items_eras.go    EraItems: the list for all combinations of eras
//	eras.go          lets a Pair do the same in both eras
//	items_lists.go   initialize, definitions, list changes, subscriptions
//	items_calls.go   params, results, errors, ids, progress
//	items_cancel.go  cancellation
//	items_server.go  notifications, logging and requests of the server
//	items_tasks.go   tasks
package mcptest
