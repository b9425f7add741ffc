package watchdog

import (
	"sync"
	"time"
)

const (
	// ordinaryTime is the time of the work of measure on an idle machine of ordinary speed. A
	// process with a tenth of a processor runs as long at a time (10 ms of every 100), so the quota
	// shows: the work then takes 100 ms.
	ordinaryTime = 10 * time.Millisecond
	ordinaryWork = 5_500_000 // steps of measure

	// maxSlowness bounds the effect of a bad moment.
	maxSlowness = 20
)

// Slowness returns how many times longer than on an idle machine of ordinary speed work takes here,
// from 1 to 20. The first call of the process measures, for about 10 ms. A bubble of synctest
// cannot measure.
var Slowness = sync.OnceValue(measure)

// measure returns how slow the machine is now. The measure is wall time, and so includes other
// processes, quotas, and the race detector.
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
