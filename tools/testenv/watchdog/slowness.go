package watchdog

import (
	"sync"
	"time"
)

const (
	// ordinaryTime is how long the work of measure takes on an idle machine of ordinary speed. It
	// is as long as a process with a tenth of a processor runs at a time (10 ms of every 100), so
	// that such a quota shows: the work takes 100 ms then.
	ordinaryTime = 10 * time.Millisecond
	ordinaryWork = 5_500_000 // steps of measure

	// maxSlowness bounds what one bad moment can do.
	maxSlowness = 20
)

// Slowness returns how many times longer than on an idle machine of ordinary speed work takes here,
// from 1 to 20: what this process finds when it asks first, in about 10 ms. It does not know in
// a bubble of synctest.
var Slowness = sync.OnceValue(measure)

// measure returns how slow the machine is now. It measures wall time, and so sees other processes,
// quotas, and the race detector.
func measure() float64 {
	began := time.Now()
	x := uint64(began.UnixNano()) | 1
	for range ordinaryWork { // xorshift
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 { // never, but the compiler does not know
		return 0
	}
	return min(max(1, float64(time.Since(began))/float64(ordinaryTime)), maxSlowness)
}

func scaled(d time.Duration, slowness float64) time.Duration {
	return time.Duration(float64(d) * slowness)
}
