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
	var lines *edges // nil for a client, whose long lines are all answered alike
	if c.opts.Peer == Server {
		lines = newEdges(r, max)
		lines.unasked = c.opts.Unasked
		r = lines
	}
	in := wire.NewReader(r, max).Within(room)
	for {
		raw, err := in.Read()
		c.heard.Add(1)
		if err == nil {
			c.Receive(raw, c.opts.Main)
		} else if !c.skipped(err, lines) {
			return err
		}
		c.heard.Add(1)
	}
}

// skipped takes a message that was too long; false if err is another error.
func (c *Conn) skipped(err error, lines *edges) bool {
	var large *wire.TooLargeError
	if !errors.As(err, &large) {
		return false
	}
	c.Oversized(lines.pop(), large, c.opts.Main)
	return true
}

// Heard is twice the number of messages that ReadLines has read, garbage
// included, and one more while one is worked on.
func (c *Conn) Heard() int64 { return c.heard.Load() }
