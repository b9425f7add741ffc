package stateless

import (
	"errors"
	"sync"
)

// Bounds of parked calls. Each keeps a call of an upstream open, and what belongs to it.
const (
	maxParked    = 1024 // of all principals
	maxParkedFor = 256  // of one
)

// errParking says that there are too many parked calls.
var errParking = errors.New("too many calls wait for answers of their clients (answer some of them, or wait until they expire)")

// Parking counts the parked calls of several principals. The zero value is empty.
type Parking struct {
	mu sync.Mutex
	n  int
}

// take takes a place, unless there is none.
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

// register gives an exchange an id and a place among the parked calls, which it keeps
// until its end.
func (p *Principal) register(x *Exchange, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil || len(p.parked) >= maxParkedFor || !p.opts.Parking.take() {
		return errParking
	}
	p.parked[id] = x
	return nil
}

// forget gives the place of an exchange back.
func (p *Principal) forget(x *Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.id != "" && p.parked[x.id] == x {
		delete(p.parked, x.id)
		p.opts.Parking.leave()
	}
}

// find returns the exchange with an id.
func (p *Principal) find(id string) (*Exchange, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, ok := p.parked[id]
	return x, ok
}
