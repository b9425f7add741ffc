package upstream

import (
	"slices"
	"time"
)

const (
	// lingering is how long a call that was given up still counts as one that
	// messages of the server may belong to: until the server has taken note, it
	// goes on talking, and what it says must not go to whoever called next.
	lingering = 5 * time.Second
	// maxLingering bounds how many such calls are kept.
	maxLingering = 256
)

// given is the owner of a call that was given up.
type given struct {
	id    int64
	owner any
	until time.Time
}

// lingers keeps the owner of a call that was given up.
func (c *Conn) lingers(id int64, owner any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = expire(c.late, time.Now())
	if len(c.late) == maxLingering {
		c.late = slices.Delete(c.late, 0, 1)
	}
	c.late = append(c.late, given{id, owner, time.Now().Add(lingering)})
}

// heeded drops the owner of a call that was given up and that the server is done
// with. The caller holds c.mu.
func (c *Conn) heeded(id int64) {
	c.late = slices.DeleteFunc(c.late, func(g given) bool { return g.id == id })
}

// expire drops those whose time has come.
func expire(late []given, now time.Time) []given {
	n := slices.IndexFunc(late, func(g given) bool { return now.Before(g.until) })
	if n < 0 {
		n = len(late)
	}
	return slices.Delete(late, 0, n)
}

// owners are the owners of the calls that a message of the server may belong
// to: first those of calls just given up, then those of calls in flight, oldest
// first.
func (c *Conn) owners() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = expire(c.late, time.Now())
	order := make([]int64, 0, len(c.pending))
	for id, p := range c.pending {
		if p.owner != nil {
			order = append(order, c.ids.nth(id))
		}
	}
	slices.Sort(order)
	owners := make([]any, 0, len(c.late)+len(order))
	for _, g := range c.late {
		owners = append(owners, g.owner)
	}
	for _, nth := range order {
		owners = append(owners, c.pending[c.ids.id(nth)].owner)
	}
	return owners
}
