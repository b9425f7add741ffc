package rpc

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// ReadLines reads newline-delimited messages from r (stdio transport, revision 2025-11-25,
// basic/transports) and receives them on the main stream. ReadLines returns the error of r. max is
// the size limit of a message in bytes, 0 for wire.DefaultMaxMessage. Large messages are counted in
// budget, which may be nil.
func (c *Conn) ReadLines(r io.Reader, max int, budget *wire.ReadBudget) error {
	var lines *lineSampler // nil for a client: all long lines get the same answer
	if c.opts.Peer == Server {
		if max <= 0 {
			max = wire.DefaultMaxMessage
		}
		max, _ := budget.Limit(max)
		lines = newLineSampler(r, max)
		lines.unsolicited = c.opts.Unsolicited
		r = lines
	}
	in := wire.NewReader(r, max).WithBudget(budget)
	for {
		raw, err := in.Read()
		c.heard.Add(1)
		if err == nil && in.Ended() && c.opts.Peer == Server && !json.Valid(raw) {
			c.reportGarbage("a truncated message", raw) // the end of the process explains more about the call
		} else if err == nil {
			c.Receive(raw, c.opts.Main)
		} else if !c.skipped(err, lines) {
			return err
		}
		c.heard.Add(1)
	}
}

// skipped handles an oversized message. It returns false for any other err.
func (c *Conn) skipped(err error, lines *lineSampler) bool {
	var large *wire.TooLargeError
	if !errors.As(err, &large) {
		return false
	}
	c.Oversized(lines.pop(), large, c.opts.Main)
	return true
}

// Heard returns twice the number of messages read by ReadLines, garbage included, plus one during
// the processing of a message.
func (c *Conn) Heard() int64 { return c.heard.Load() }
