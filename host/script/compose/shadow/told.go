package shadow

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
)

// told is a digest of all calls that a server has got from a run, or would have got from a shadow,
// in order. The server's answers can depend on each call, also on calls of tools that only read:
// the server can count the calls. The calls of a batch count before any call of the batch is
// answered, since they are made at the same time.
type told [sha256.Size]byte

// with returns the digest with a further call.
func (d told) with(c *flow.Call) told {
	h := sha256.New()
	h.Write(d[:])
	for _, part := range [][]byte{[]byte(c.Tool), c.Arguments, c.Meta} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	h.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(c.Timeout)))
	return told(h.Sum(nil))
}
