package stateless

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Bounds of parked calls. Each parked call keeps a call of an upstream open, with the upstream
// call's resources.
const (
	maxParked    = 1024 // of all principals
	maxParkedFor = 256  // of a principal
	// parkedMemory is the approximate memory of a waiting call without the sent messages, in bytes.
	parkedMemory = 8 << 10
)

// errParking is the error at the limit on parked calls.
var errParking = errors.New("too many calls wait for answers of their clients (answer some of them, or wait until they expire)")

// Parking counts the parked calls of several principals. The zero value is empty.
type Parking struct {
	mu sync.Mutex
	n  int
}

// take takes a place, and returns false without a free place.
func (k *Parking) take() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n >= maxParked {
		return false
	}
	k.n++
	return true
}

func (k *Parking) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n--
}

// register gives an exchange an id and a place among the parked calls until the exchange's end,
// with the memory for the exchange, and for a question of size question. The caller holds x.mu.
func (p *Principal) register(x *Exchange, id string, question int) error {
	kept := p.opts.Budget.OpenKept(route.BudgetKey(p), "calls that wait for this client")
	if err := kept.Set(x.size() + int64(question)); err != nil {
		kept.Close()
		return noMemory(err)
	}
	p.mu.Lock()
	room := p.ctx.Err() == nil && len(p.parked) < maxParkedFor && p.opts.Parking.take()
	if room {
		p.parked[id] = x
		x.id, x.kept = id, kept
	}
	p.mu.Unlock()
	if !room {
		kept.Close()
		return errParking
	}
	return nil
}

// size returns how many bytes the exchange keeps. The caller holds x.mu.
func (x *Exchange) size() int64 {
	n := parkedMemory + budget.Copies*len(x.params) + len(x.said.client) + len(x.reply.Result) + len(x.reply.Error)
	for _, q := range x.questions {
		n += len(q.request)
	}
	return int64(n)
}

// count counts the memory of the exchange again after a decrease. The caller holds x.mu.
func (x *Exchange) count() { _ = x.kept.Set(x.size()) }

// keep keeps a reply for the next request. keep copies the reply, because the server is charged for
// the reply's message as long as any reference remains. The caller holds x.mu.
func (x *Exchange) keep(reply wire.Reply) {
	x.params, x.questions = nil, nil
	x.count()
	if err := x.kept.Add(len(reply.Result) + len(reply.Error)); err != nil {
		reply = wire.Reply{Error: rpc.LostAnswer(err)}
	}
	reply.Result, reply.Error = bytes.Clone(reply.Result), bytes.Clone(reply.Error)
	x.reply = reply
}

// noMemory returns the error for a call without memory to wait for the client.
func noMemory(err error) error { return fmt.Errorf("the call cannot wait: %s", limits.Explain(err)) }

// forget gives the place of an exchange back.
func (p *Principal) forget(x *Exchange) {
	p.mu.Lock()
	kept := x.kept
	if x.id != "" && p.parked[x.id] == x {
		delete(p.parked, x.id)
		p.opts.Parking.leave()
	}
	p.mu.Unlock()
	kept.Close()
}

// find returns the exchange with an id.
func (p *Principal) find(id string) (*Exchange, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, ok := p.parked[id]
	return x, ok
}
