package front

import (
	"errors"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// receiveBatch answers all requests of a batch with one array (JSON-RPC 2.0,
// section 6). err is that of splitting it.
func (s *Session) receiveBatch(items [][]byte, err error) {
	var bad *wire.RPCError
	if errors.As(err, &bad) {
		s.reply(nil, wire.Reply{Error: bad.Raw()})
		return
	}
	if len(items) == 0 {
		s.reply(nil, fail(wire.CodeInvalidRequest, "invalid request: empty batch"))
		return
	}
	b := &batch{session: s}
	for _, item := range items {
		if msg, err := wire.Parse(item); err != nil || msg.IsRequest() {
			b.open++
		}
	}
	for _, item := range items {
		s.receiveOne(item, b.answer)
	}
}

// batch gathers the responses to a batch.
type batch struct {
	session *Session

	mu        sync.Mutex
	open      int // messages of the batch that want an answer and have none
	responses []byte
}

// answer takes one reply; the last one sends them all.
func (b *batch) answer(id []byte, reply wire.Reply) {
	b.mu.Lock()
	if reply.Result != nil || reply.Error != nil {
		b.responses = append(append(b.responses, ','), wire.Response(id, reply)...)
	}
	b.open--
	last := b.open == 0 && len(b.responses) > 0
	b.mu.Unlock()
	if last {
		b.responses[0] = '['
		b.session.write(append(b.responses, ']'))
	}
}
