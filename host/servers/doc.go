// Package servers is the client side of a configured MCP server. An Upstream starts the server, or
// connects to the server, does the handshake, reads the lists, makes calls, and restarts the server
// after the server's end. Begin with Spec, Options and Upstream.
//
// Each connection is a link (package link) over one of three transports. Messages are passed on as
// raw bytes (package wire); only the parts for the handshake and the lists are decoded.
//
// The packages below know nothing of an Upstream: stdio, streamable and legacysse are the links,
// stateless is a link over another link for servers without a handshake, process runs a server as a
// subprocess, httpclient sends requests over HTTP, and oauth gets access tokens.
package servers
