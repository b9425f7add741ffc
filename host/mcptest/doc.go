// Package mcptest has the raw peers of the test tree: an MCP server and an MCP
// client that speak JSON-RPC as bytes, over stdio, streamable HTTP (revision
// 2025-11-25, basic/transports) and the older HTTP+SSE (revision 2024-11-05).
// Neither decodes more of a message than it must, so both show what a proxy
// between them does to it. They share nothing with the product but host/wire's
// parsing of one message, and are imported by tests and by scripts/soak only.
//
// The server, whose behaviour depends on a [Switches] value and on the arguments
// of its tools:
//
//	switches.go     Switches, Fault; Main makes a test binary a server
//	server.go       Server, and one session with a client
//	methods.go      what it answers to each method
//	tools.go        its tools: echo, count, wait, ask, ...
//	definitions.go  what it lists, and its exotic answers
//	tasks.go        tasks (revision 2025-11-25)
//	faults.go       everything that a server can do wrong
//	stream.go       where messages to the client go: lines, or events
//	servestdio.go, servehttp.go, servesse.go  the transports
//	observer.go     how a test sees what a server in another process got
//
// The client:
//
//	client.go       Client: requests, answers by script
//	clientstdio.go, clienthttp.go, clientsse.go  the transports
//	sse.go          reading server-sent events
//
// Both record what they receive in a [Log] (log.go). [Diff] compares JSON token
// by token (compare.go). [Items] is the fidelity list: what must be the same
// through a proxy as without one.
//
//	items.go         Item, Pair: a client, and the log of its server
//	items_lists.go   initialize, definitions, list changes, subscriptions
//	items_calls.go   params, results, errors, ids, progress
//	items_cancel.go  cancellation
//	items_server.go  notifications, logging and requests of the server
//	items_tasks.go   tasks
package mcptest
