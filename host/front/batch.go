package front

import (
	"errors"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// IsBatch tells whether raw is a JSON-RPC batch and the session's revision has
// batches.
func (s *Session) IsBatch(raw []byte) bool {
	return len(raw) > 0 && raw[0] == '[' && s.Revision().Has(protocol.Batches)
}

// receiveBatch answers all requests of a batch with one array (JSON-RPC 2.0,
// section 6).
func (s *Session) receiveBatch(raw []byte, out Stream) (waits bool) {
	items, _, err := wire.Split(raw)
	var bad *wire.RPCError
	if errors.As(err, &bad) {
		s.Reject(bad, out)
		return true
	}
	if len(items) == 0 {
		s.Reject(wire.Errorf(wire.CodeInvalidRequest, "invalid request: empty batch"), out)
		return true
	}
	type parsed struct {
		msg wire.Message
		err error
	}
	b := &batch{session: s, out: out}
	all := make([]parsed, len(items))
	for i, item := range items {
		msg, err := wire.Parse(item)
		all[i] = parsed{msg, err}
		if WantsAnswer(msg, err) {
			b.open++
		}
	}
	waits = b.open > 0
	for _, p := range all {
		s.receive(p.msg, p.err, out, b)
	}
	return waits
}

// batch gathers the responses to a batch.
type batch struct {
	session *Session
	out     Stream

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
	last := b.open == 0
	b.mu.Unlock()
	if !last {
		return
	}
	if len(b.responses) > 0 {
		b.responses[0] = '['
		b.responses = append(b.responses, ']')
	}
	b.session.written(b.out, b.out.Close(b.responses))
}
