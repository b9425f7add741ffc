package upstream

import (
	"log/slog"
	"sync"
	"time"
)

// What a server may send that belongs to no call in flight: log messages, changes
// of lists, requests, progress that nobody waits for, garbage, lines on stderr. A
// unit is one message, or floodUnit bytes of a larger one. A server may send
// floodBurst units at once and floodRate units a second for ever. What is more is
// read at that rate, so that the server has to wait: nothing is dropped, and it
// costs us little. Answers, and progress of calls in flight, cost nothing, but they
// come behind what costs something in the same stream.
const (
	floodUnit  = 4 << 10 // bytes
	floodBurst = 20_000
	floodRate  = 500 // units a second
)

// allowance is what one server may still send. It lives as long as the upstream, so
// that a new start brings no new one. It is safe for concurrent use; a nil one has
// no end.
type allowance struct {
	log   *slog.Logger
	what  string // for the log
	burst int    // units

	mu    sync.Mutex
	used  time.Duration // how long it takes at floodRate until all is as if nothing had been sent
	at    time.Time     // when that was so
	since time.Time     // when reading was slowed; zero if it is not
}

func newAllowance(log *slog.Logger, what string) *allowance {
	return &allowance{log: log, what: what, burst: floodBurst}
}

// unitTime is what a unit costs.
const unitTime = time.Second / floodRate

// spend takes what bytes of a message cost, and waits until there is room for more;
// not longer than until one of the channels is closed.
func (a *allowance) spend(bytes int, stop, stopToo <-chan struct{}) {
	if a == nil {
		return
	}
	wait, first := a.take(max(1, bytes/floodUnit))
	if first {
		a.log.Warn("the server sends more than it is asked for: it is read slowly from now on", "what", a.what, "units_per_second", floodRate)
	}
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	case <-stopToo:
	}
}

// take takes units, and tells how long whoever reads has to wait before it reads
// more, and whether it has not had to before.
func (a *allowance) take(units int) (wait time.Duration, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recover()
	a.used += time.Duration(units) * unitTime
	wait = a.used - a.most()
	if first = wait > 0 && a.since.IsZero(); first {
		a.since = a.at
	}
	return wait, first
}

// recover lets time pass. The caller holds a.mu.
func (a *allowance) recover() {
	now := time.Now()
	a.used = max(0, a.used-now.Sub(a.at))
	a.at = now
	if a.used < a.most()/2 { // else it would begin and end all the time
		a.since = time.Time{}
	}
}

func (a *allowance) most() time.Duration { return time.Duration(a.burst) * unitTime }

// slowed is since when reading is slow; zero if it is not.
func (a *allowance) slowed() time.Time {
	if a == nil {
		return time.Time{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recover()
	return a.since
}
