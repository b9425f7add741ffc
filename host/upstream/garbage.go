package upstream

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/rpc"
)

// limiter lets 10 log records through in 10 seconds and counts the others.
type limiter struct {
	from    time.Time
	let     int
	skipped int
}

const (
	limiterBurst  = 10
	limiterWindow = 10 * time.Second
)

// allow tells whether to log now, and how many were not logged before.
func (l *limiter) allow() (skipped int, ok bool) {
	if now := time.Now(); now.Sub(l.from) >= limiterWindow {
		l.from, l.let = now, 0
	}
	if l.let == limiterBurst {
		l.skipped++
		return 0, false
	}
	l.let++
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}

// maxExcerpt is how much is kept of each end of an event that is too long.
const maxExcerpt = rpc.MaxExcerpt
