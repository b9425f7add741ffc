package streamable

import (
	"context"
	"sync"
	"time"
)

// The runtime keeps the memory of large bodies for minutes after they are gone,
// and garbage that it has not collected for even longer. So after each burst of
// large bodies a memoryReturner returns it to the system.
const (
	// burst is how many bytes of bodies at a time count as one.
	burst = 64 << 20
	// returnDelay is how long after the last body of a burst has gone.
	returnDelay = 5 * time.Second
)

// memoryReturner returns memory to the system after bursts of large bodies.
type memoryReturner struct {
	free  func()
	ebbed chan struct{} // holds a token when most bodies of a burst have gone

	mu   sync.Mutex // a leaf
	held int64      // bytes of the bodies there are
	peak int64      // of held since free was called
}

func newMemoryReturner(free func()) *memoryReturner {
	return &memoryReturner{free: free, ebbed: make(chan struct{}, 1)}
}

// add counts the bytes of a body that has come, or gone if n is negative.
func (m *memoryReturner) add(n int64) {
	m.mu.Lock()
	m.held += n
	m.peak = max(m.peak, m.held)
	ebbed := n < 0 && m.peak >= burst && m.held <= m.peak/8
	m.mu.Unlock()
	if !ebbed {
		return
	}
	select {
	case m.ebbed <- struct{}{}:
	default:
	}
}

// run returns memory after each burst until ctx ends.
func (m *memoryReturner) run(ctx context.Context) {
	for {
		select {
		case <-m.ebbed:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(returnDelay)
		for waiting := true; waiting; {
			select {
			case <-m.ebbed: // more bodies have gone
				timer.Reset(returnDelay)
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		m.mu.Lock()
		over := m.held <= m.peak/8 // else there is another burst, which will end too
		if over {
			m.peak = m.held
		}
		m.mu.Unlock()
		if over {
			m.free()
		}
	}
}
