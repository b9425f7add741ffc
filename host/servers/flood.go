package servers

import (
	"log/slog"
	"sync"
	"time"
)

// Limits on unsolicited messages of a server, which belong to no call in flight: log messages, list
// changes, requests, unexpected progress, garbage, lines on stderr. A unit is a message, or
// floodUnit bytes of a larger message. A server may send floodBurst units at once, and floodRate
// units per second in the long run. A faster server is read at floodRate, and so has to wait;
// nothing is dropped. Answers and progress of calls in flight cost nothing, but unsolicited
// messages in the same stream can delay them.
const (
	floodUnit  = 4 << 10 // bytes
	floodBurst = 20_000
	floodRate  = 500 // units a second
)

// allowance is a leaky bucket for the unsolicited messages of a server. The allowance lives as long
// as the upstream, so that a restart does not reset the bucket. It is safe for concurrent use. A
// nil allowance is unlimited.
type allowance struct {
	log   *slog.Logger
	kind  string // for the log
	burst int    // units

	mu    sync.Mutex
	used  time.Duration // the time until the bucket is empty
	at    time.Time     // when used was computed
	since time.Time     // when reading was slowed; zero at full speed
}

func newAllowance(log *slog.Logger, kind string) *allowance {
	return &allowance{log: log, kind: kind, burst: floodBurst}
}

// unitTime is the cost of a unit.
const unitTime = time.Second / floodRate

// spend charges for a message of some bytes, and waits for room for more, or until stop or stopToo
// is closed.
func (a *allowance) spend(bytes int, stop, stopToo <-chan struct{}) {
	if a == nil {
		return
	}
	wait, first := a.take(max(1, bytes/floodUnit))
	if first {
		a.log.Warn("the server sends too many unsolicited messages: it is read slowly from now on", "kind", a.kind, "units_per_second", floodRate)
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

// take charges for units. take returns how long to wait before reading on, and whether this is the
// first wait.
func (a *allowance) take(units int) (wait time.Duration, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain()
	a.used += time.Duration(units) * unitTime
	wait = a.used - a.most()
	if first = wait > 0 && a.since.IsZero(); first {
		a.since = a.at
	}
	return wait, first
}

// drain empties the bucket by the elapsed time. The caller holds a.mu.
func (a *allowance) drain() {
	now := time.Now()
	a.used = max(0, a.used-now.Sub(a.at))
	a.at = now
	if a.used < a.most()/2 { // hysteresis
		a.since = time.Time{}
	}
}

// most is the size of the bucket.
func (a *allowance) most() time.Duration { return time.Duration(a.burst) * unitTime }

// slowed returns when reading became slow; zero at full speed.
func (a *allowance) slowed() time.Time {
	if a == nil {
		return time.Time{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain()
	return a.since
}
