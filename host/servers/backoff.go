package servers

import (
	"math/rand/v2"
	"time"
)

// timings are the delays and waits of an upstream. Tests shorten them.
type timings struct {
	grace       time.Duration // between the steps of a shutdown
	killWait    time.Duration // how long Close waits for the goroutines after killing the server
	firstDelay  time.Duration // before the first restart
	maxDelay    time.Duration // the longest delay before a restart
	stableAfter time.Duration // after a server was ready this long, the next delay is firstDelay again
	callWait    time.Duration // how long calls wait for the first restart
	askAgain    time.Duration // before a server that does not work is asked again for the era
	checkEvery  time.Duration // the shortest time between two checks of a server's era
	discover    time.Duration // the longest wait for the answer to server/discover of a server that may not know the method
	patience    time.Duration // how long a start waits for the other lists after the list of tools
	reread      time.Duration // the shortest time between two readings of a list because of the list's age
}

var defaultTimings = timings{
	grace:       time.Second,
	killWait:    500 * time.Millisecond,
	firstDelay:  250 * time.Millisecond,
	maxDelay:    30 * time.Second,
	stableAfter: 10 * time.Second,
	callWait:    2 * time.Second,
	askAgain:    500 * time.Millisecond,
	checkEvery:  5 * time.Second,
	discover:    15 * time.Second,
	patience:    5 * time.Second,
	reread:      time.Second,
}

// backoff computes the delay before each restart.
type backoff struct {
	timings
	failures int           // in a row
	delay    time.Duration // the last delay, without jitter
}

// next returns the delay after a failure. The delay begins with about firstDelay and doubles up to
// maxDelay. A random part of up to a quarter is subtracted, so that upstreams with simultaneous
// failures do not restart at the same time. up is how long the server had been ready, or 0. With
// redial, only a connection has to be made again, so the delay after a first failure is 0.
func (b *backoff) next(up time.Duration, redial bool) time.Duration {
	if up >= b.stableAfter {
		b.failures = 0
	}
	b.failures++
	if b.failures == 1 {
		b.delay = b.firstDelay
		if redial {
			return 0
		}
	} else {
		b.delay *= 2
	}
	b.delay = min(b.delay, b.maxDelay)
	return b.delay - rand.N(b.delay/4+1)
}
