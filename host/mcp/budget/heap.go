package budget

import (
	"os"
	"runtime/debug"
	"time"
)

// LimitHeap sets the memory limit of the garbage collector, for the whole process, so
// that the host's own heap fits beside the memory of scripts, which is outside the heap.
// If the operator has set GOMEMLIMIT, it does nothing.
func (b *Budget) LimitHeap() {
	if b == nil || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(heapLimit(int64(min(Memory(), 1<<62)), b.mostOfRuns()))
}

// heapLimit returns what runs leave of the memory, less a tenth for everything else, but
// at least a quarter.
func heapLimit(all, runs int64) int64 { return max(all-all/10-runs, all/4) }

const (
	// burst is how many bytes of messages make it worthwhile to return memory to
	// the system early; idleAfter is how long to wait after the last of them.
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
