package rpc

import "testing"

func TestGarbageLogLimitIsReset(t *testing.T) {
	l := limiter{allowed: limiterBurst, skipped: 990} // the window began long ago
	if n, ok := l.allow(); !ok || n != 990 {
		t.Errorf("a new window: %d, %v", n, ok)
	}
}
