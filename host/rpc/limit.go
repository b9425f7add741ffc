package rpc

import "time"

// Limit is how long a call may take. The zero Limit is none.
type Limit struct {
	// Idle is the longest time without a sign of life: neither progress of the
	// call, nor a request of the peer that is being answered, since for that the
	// peer may be waiting. 0: no limit.
	Idle time.Duration
	// Max is the longest time in all. 0: no limit.
	Max time.Duration
}

// One timer serves all calls of a connection. It is set for the time when the
// first of them is due, or earlier: a sign of life only moves call.due, and the
// timer finds nothing to do then.

// begin starts the limits of a call.
func (p *call) begin(now time.Time) {
	if p.limit.Max > 0 {
		p.latest = now.Add(p.limit.Max)
	}
	p.restart(now)
}

// restart restarts the idle limit of a call.
func (p *call) restart(now time.Time) {
	p.due = p.latest
	if p.limit.Idle <= 0 {
		return
	}
	if idle := now.Add(p.limit.Idle); p.due.IsZero() || idle.Before(p.due) {
		p.due = idle
	}
}

// watchOver has the limits of a new call looked at when it is due. The caller
// holds c.mu.
func (c *Conn) watchOver(p *call) {
	s := &c.state
	switch {
	case p.due.IsZero():
	case !s.waking:
		c.wakeAt(p.due)
	case p.due.Before(s.wakeAt) && c.watch.Stop(): // else look is about to run, and will see it
		s.wakeAt = p.due
		c.watch.Reset(time.Until(p.due))
	}
}

// wakeAt sets the timer, which is not set. The caller holds c.mu.
func (c *Conn) wakeAt(due time.Time) {
	c.state.waking, c.state.wakeAt = true, due
	c.timers.Add(1) // until look has returned, or the timer is stopped
	if c.watch == nil {
		c.watch = time.AfterFunc(time.Until(due), c.look)
	} else {
		c.watch.Reset(time.Until(due))
	}
}

// unwatch stops the timer. The caller holds c.mu.
func (c *Conn) unwatch() {
	if c.state.waking && c.watch.Stop() {
		c.state.waking = false
		c.timers.Done()
	}
}

// overdue is a call whose time is up.
type overdue struct {
	id     int64
	method string
	after  time.Duration
	max    bool
}

// look cancels the calls whose time is up.
func (c *Conn) look() {
	defer c.timers.Done()
	c.mu.Lock()
	over, next := c.state.overdue(time.Now())
	c.state.waking = false
	if !next.IsZero() {
		c.wakeAt(next)
	}
	c.mu.Unlock()
	for _, o := range over {
		c.cancelCall(o.id, c.errors.Timeout(o.method, o.after, o.max))
	}
}

// overdue finds the calls whose time is up, and when the first of the others is
// due; zero for never.
func (s *state) overdue(now time.Time) (over []overdue, next time.Time) {
	for id, p := range s.calls {
		switch {
		case p.due.IsZero():
			continue
		case now.Before(p.due):
		case !p.latest.IsZero() && !now.Before(p.latest):
			over = append(over, overdue{id, p.method, p.limit.Max, true})
			continue
		case p.busy || s.open > 0: // the peer waits for us, or for a client that is slow
			p.restart(now)
		default:
			over = append(over, overdue{id, p.method, p.limit.Idle, false})
			continue
		}
		if next.IsZero() || p.due.Before(next) {
			next = p.due
		}
	}
	return over, next
}
