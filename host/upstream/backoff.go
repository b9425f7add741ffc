package upstream

import (
	"math/rand/v2"
	"time"
)

// tempo holds the times of an upstream's life.
type tempo struct {
	grace    time.Duration // between the steps of a shutdown
	first    time.Duration // before the first new start
	most     time.Duration // the longest wait before a new start
	steady   time.Duration // a server that was up this long begins anew with first
	patience time.Duration // how long calls wait for the first new start
}

var usualTempo = tempo{
	grace:    time.Second,
	first:    250 * time.Millisecond,
	most:     30 * time.Second,
	steady:   10 * time.Second,
	patience: 2 * time.Second,
}

// backoff tells how long to wait before the next start.
type backoff struct {
	tempo
	failures int           // in a row
	wait     time.Duration // of the last one, without jitter
}

// next is the wait after a failure: about first, doubling up to most, less a
// random quarter at most, so that many upstreams of one cause do not come back
// in step. up is how long the server had been ready, 0 if it never was. A link
// that only has to be made anew is worth one start at once.
func (b *backoff) next(up time.Duration, anew bool) time.Duration {
	if up >= b.steady {
		b.failures = 0
	}
	b.failures++
	if b.failures == 1 {
		b.wait = b.first
		if anew {
			return 0
		}
	} else {
		b.wait *= 2
	}
	b.wait = min(b.wait, b.most)
	return b.wait - rand.N(b.wait/4+1)
}
