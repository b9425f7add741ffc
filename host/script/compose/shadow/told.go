package shadow

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
)

// told is a digest of all calls that a server has got from a run, or would have got from a shadow,
// in their order. What the server answers can depend on each of them, also on those of tools that
// only read: it can count them. The calls of a batch count before any of them is answered, since
// they are made at the same time.
type told [sha256.Size]byte

// with returns the digest with one more call.
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
