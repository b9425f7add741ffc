package rpc

import "time"

// Limit says how long a call may take. The zero value means no limit.
type Limit struct {
	// Idle is the longest time without activity: progress of the call, or a request of the peer in
	// work, because the peer may be waiting for the answer. 0: no limit.
	Idle time.Duration
	// Max is the longest total time. 0: no limit.
	Max time.Duration
}

// One timer serves all calls of a connection. The timer is set for the earliest due time, or
// earlier: activity only changes call.due, and then the timer fires too early.

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

// scheduleLimit sets the timer to the due time of a new call, or earlier. The caller holds c.mu.
func (c *Conn) scheduleLimit(p *call) {
	s := &c.state
	switch {
	case p.due.IsZero():
	case !s.timerSet:
		c.setTimer(p.due)
	case p.due.Before(s.timerAt) && c.limitTimer.Stop(): // else checkLimits is about to run, and will see the call
		s.timerAt = p.due
		c.limitTimer.Reset(time.Until(p.due))
	}
}

// setTimer sets the timer, which must not be set. The caller holds c.mu.
func (c *Conn) setTimer(due time.Time) {
	c.state.timerSet, c.state.timerAt = true, due
	c.timers.Add(1) // until checkLimits has returned, or the timer is stopped
	if c.limitTimer == nil {
		c.limitTimer = time.AfterFunc(time.Until(due), c.checkLimits)
	} else {
		c.limitTimer.Reset(time.Until(due))
	}
}

// stopTimer stops the timer. The caller holds c.mu.
func (c *Conn) stopTimer() {
	if c.state.timerSet && c.limitTimer.Stop() {
		c.state.timerSet = false
		c.timers.Done()
	}
}

// overdue is a call above a limit.
type overdue struct {
	id     int64
	method string
	after  time.Duration
	max    bool
}

// checkLimits cancels the calls above a limit.
func (c *Conn) checkLimits() {
	defer c.timers.Done()
	c.mu.Lock()
	over, next := c.state.overdue(time.Now())
	c.state.timerSet = false
	if !next.IsZero() {
		c.setTimer(next)
	}
	c.mu.Unlock()
	for _, o := range over {
		c.cancelCall(o.id, c.errors.Timeout(o.method, o.after, o.max))
	}
}

// overdue returns the calls above a limit, and the earliest due time of the remaining calls; zero
// for never.
func (s *state) overdue(now time.Time) (over []overdue, next time.Time) {
	for id, p := range s.calls {
		switch {
		case p.due.IsZero():
			continue
		case now.Before(p.due):
		case !p.latest.IsZero() && !now.Before(p.latest):
			over = append(over, overdue{id, p.method, p.limit.Max, true})
			continue
		case p.busy || s.open > 0: // the peer waits for us, or for a slow client
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
