package budget

import (
	"os"
	"runtime/debug"
	"time"
)

// LimitHeap sets the memory limit of the garbage collector, for the whole process, so that the
// host's own heap fits next to the memory of scripts, which is outside the heap. If the operator
// has set GOMEMLIMIT, LimitHeap does nothing.
func (b *Budget) LimitHeap() {
	if b == nil || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(heapLimit(int64(min(Memory(), 1<<62)), b.mostOfRuns()))
}

// heapLimit returns the memory left by runs, less a tenth for everything else, but at least a
// quarter.
func heapLimit(all, runs int64) int64 { return max(all-all/10-runs, all/4) }

const (
	// burst is the number of bytes of messages from which an early return of memory to the system
	// is worthwhile; idleAfter is the wait after the last of these messages.
	burst     = 64 << 20
	idleAfter = 5 * time.Second
)

// countBurst counts a message of the given size. After a burst of messages, memory is
// returned to the system. The caller holds b.mu.
func (b *Budget) countBurst(bytes int64) {
	if b.burst += bytes; b.burst < burst {
		return
	}
	if b.idle == nil {
		b.idle = time.AfterFunc(idleAfter, b.freeMemory)
	} else {
		b.idle.Reset(idleAfter)
	}
}

// freeMemory returns memory to the system.
func (b *Budget) freeMemory() {
	b.mu.Lock()
	b.burst = 0
	if b.attached > 0 { // some messages are still in use: try again later
		b.burst = burst
		b.idle.Reset(idleAfter)
	}
	b.mu.Unlock()
	debug.FreeOSMemory()
}
