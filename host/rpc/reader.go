package rpc

import (
	"errors"
	"io"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// ReadLines receives the newline-delimited messages of r on the main stream
// (stdio transport, revision 2025-11-25, basic/transports) until r ends, whose
// error it returns. max caps a message, in bytes, 0 for wire.DefaultMaxMessage;
// room, which may be nil, is what large ones are counted in.
func (c *Conn) ReadLines(r io.Reader, max int, room *wire.Room) error {
	lines := newEdges(r, max)
	lines.unasked = c.opts.Unasked
	in := wire.NewReader(lines, max).Within(room)
	for {
		raw, err := in.Read()
		c.heard.Add(1)
		var large *wire.TooLargeError
		switch {
		case err == nil:
			c.Receive(raw, c.opts.Main)
		case errors.As(err, &large):
			c.Oversized(lines.pop(), large, c.opts.Main)
		default:
			return err
		}
		c.heard.Add(1)
	}
}

// Heard is twice the number of messages that ReadLines has read, garbage
// included, and one more while one is worked on.
func (c *Conn) Heard() int64 { return c.heard.Load() }
