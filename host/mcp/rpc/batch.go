package rpc

import (
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// batch collects the responses to a batch of the peer.
type batch struct {
	conn *Conn
	on   Stream

	mu        sync.Mutex
	open      int // messages of the batch that still need an answer
	responses []byte
	bytes     int // bytes counted for the answers
}

// receiveBatch handles a batch, or a malformed batch that cannot be split because of err. All
// requests of a batch are answered with one array (JSON-RPC 2.0, section 6).
func (c *Conn) receiveBatch(items [][]byte, err error, raw []byte, on Stream) (waits bool) {
	if err == nil && len(items) == 0 {
		err = wire.Errorf(wire.CodeInvalidRequest, "invalid request: empty batch")
	}
	if err != nil {
		return c.malformed(wire.Message{}, err, raw, on, nil)
	}
	type parsed struct {
		m   wire.Message
		err error
	}
	b := &batch{conn: c, on: on}
	all := make([]parsed, len(items))
	for i, item := range items {
		m, err := c.parse(item)
		all[i] = parsed{m, err}
		if c.wantsAnswer(m, err) {
			b.open++
		}
	}
	waits = b.open > 0
	if waits && !c.acquire() {
		return false
	}
	for i, p := range all {
		c.message(p.m, p.err, items[i], on, b)
	}
	return waits
}

// respond adds a reply; the zero Reply means no reply. After the last reply, all are sent.
func (b *batch) respond(id []byte, reply wire.Reply) {
	reply, bytes := b.conn.countAnswer(reply)
	b.mu.Lock()
	b.bytes += bytes
	if reply.Result != nil || reply.Error != nil {
		b.responses = append(append(b.responses, ','), wire.Response(id, reply)...)
	}
	b.open--
	last := b.open == 0
	b.mu.Unlock()
	if !last {
		return
	}
	if len(b.responses) > 0 {
		b.responses[0] = '['
		b.responses = append(b.responses, ']')
	}
	b.conn.finish(b.on, b.responses, b.bytes, false)
}
