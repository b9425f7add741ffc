package streamable

import (
	"context"
	"sync"
	"time"
)

// The runtime keeps the memory of large bodies for minutes after their release, and longer before a
// garbage collection. A memoryReturner therefore returns memory to the system after each burst of
// large bodies.
const (
	// burst is how many bytes of bodies at a time count as a burst.
	burst = 64 << 20
	// returnDelay is the time from the end of a burst until memory is returned.
	returnDelay = 5 * time.Second
)

// memoryReturner returns memory to the system after bursts of large bodies.
type memoryReturner struct {
	free  func()
	ended chan struct{} // holds a token when most bodies of a burst have been released

	mu   sync.Mutex // a leaf
	held int64      // bytes of all bodies
	peak int64      // the highest held since free was called
}

func newMemoryReturner(free func()) *memoryReturner {
	return &memoryReturner{free: free, ended: make(chan struct{}, 1)}
}

// add counts n allocated bytes of bodies, or released bytes if n is negative.
func (m *memoryReturner) add(n int64) {
	m.mu.Lock()
	m.held += n
	m.peak = max(m.peak, m.held)
	ended := n < 0 && m.peak >= burst && m.held <= m.peak/8
	m.mu.Unlock()
	if !ended {
		return
	}
	select {
	case m.ended <- struct{}{}:
	default:
	}
}

// run returns memory after each burst until ctx ends.
func (m *memoryReturner) run(ctx context.Context) {
	for {
		select {
		case <-m.ended:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(returnDelay)
		for waiting := true; waiting; {
			select {
			case <-m.ended: // more bodies have been released
				timer.Reset(returnDelay)
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		m.mu.Lock()
		over := m.held <= m.peak/8 // otherwise another burst is in progress, which will end too
		if over {
			m.peak = m.held
		}
		m.mu.Unlock()
		if over {
			m.free()
		}
	}
}
