package rpc

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Memory counts bytes kept for the peer of a connection. A Memory is safe for concurrent use and
// does not block.
type Memory interface {
	// Add adds n bytes. The error, for the peer, reports a lack of memory.
	Add(n int) error
	// Sub takes n bytes away.
	Sub(n int)
}

// smallSize is the size in bytes of the largest request or answer that is not counted: pings,
// cancellations and similar small messages always get through. Their number is limited.
const smallSize = 4 << 10

// admitBytes counts the bytes of a request. The error is the answer to the request.
func (c *Conn) admitBytes(r *Request) *wire.RPCError {
	n := len(r.Params)
	if c.opts.Memory == nil || n <= smallSize || n > budget.Small { // a larger request is counted by the reader
		return nil
	}
	if err := c.opts.Memory.Add(n); err != nil {
		return wire.Errorf(wire.CodeInternal, "request refused: %s", limits.Explain(err))
	}
	r.bytes = n
	return nil
}

// settleBytes ends the counting of a request.
func (c *Conn) settleBytes(r *Request) {
	if r.bytes > 0 {
		c.opts.Memory.Sub(r.bytes)
	}
}

// countAnswer counts an answer until the answer has been written. Without memory for the answer,
// countAnswer returns an error instead.
func (c *Conn) countAnswer(reply wire.Reply) (_ wire.Reply, bytes int) {
	n := len(reply.Result) + len(reply.Error)
	if c.opts.Memory == nil || n <= smallSize {
		return reply, 0
	}
	if err := c.opts.Memory.Add(n); err != nil {
		return wire.Reply{Error: LostAnswer(err)}, 0
	}
	return reply, n
}

// LostAnswer returns the raw error sent in place of an answer for which memory is lacking.
func LostAnswer(err error) []byte {
	return wire.Errorf(wire.CodeInternal, "the answer is lost: %s", limits.Explain(err)).Raw()
}
