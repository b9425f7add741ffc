// Package mcptest provides raw peers for tests: an MCP server and an MCP client that exchange
// JSON-RPC as bytes, over stdio, streamable HTTP (revision 2025-11-25, basic/transports) and the
// older HTTP+SSE (revision 2024-11-05), in the handshake era and in the stateless era (revision
// 2026-07-28). Both decode as little as possible, and so show how a proxy between them changes a
// message. Of the product they share only the parsing of a message in host/mcp/wire. Only tests and
// scripts/soak import this package.
//
// Start with [Server], [Client] and [Items], the fidelity list of exchanges that must look the same
// through a proxy as without one. Both peers record received messages in a [Log].
package mcptest
