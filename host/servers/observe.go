package servers

import "github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"

// Observer sees the connections with servers, for telemetry. An Observer is safe for concurrent use
// and must not block.
type Observer interface {
	// Connect is called before a connection is made. again is set for all but the first connection.
	Connect(spec Spec, again bool) Connection
}

// Connection observes a connection. A Connection is safe for concurrent use and must not block.
type Connection interface {
	rpc.Tracer
	// Agreed is called with the revision when the handshake is done.
	Agreed(revision string)
	// Ended is called once, at the end, and also if no connection could be made.
	Ended()
}
