package budget

import (
	"os"
	"runtime/debug"
	"time"
)

// LimitHeap has the collector keep the host's own heap within what the memory of
// scripts, which is outside of it, leaves of the machine's or container's memory.
// An operator who sets GOMEMLIMIT knows better. It is for the whole process.
func (b *Budget) LimitHeap() {
	if b == nil || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(heapLimit(int64(min(Memory(), 1<<62)), b.mostOfRuns()))
}

// heapLimit leaves a tenth of all memory to what is neither, and the heap a
// quarter at least.
func heapLimit(all, runs int64) int64 { return max(all-all/10-runs, all/4) }

const (
	// burst is how many bytes of messages are worth giving their memory back
	// early, and idleAfter how long there have been no more of them then.
	burst     = 64 << 20
	idleAfter = 5 * time.Second
)

// passed notes a message of so many bytes: after a burst of them, their memory
// goes back to the system. The caller holds b.mu.
func (b *Budget) passed(bytes int64) {
	if b.burst += bytes; b.burst < burst {
		return
	}
	if b.idle == nil {
		b.idle = time.AfterFunc(idleAfter, b.giveMemoryBack)
	} else {
		b.idle.Reset(idleAfter)
	}
}

func (b *Budget) giveMemoryBack() {
	b.mu.Lock()
	b.burst = 0
	if b.attached > 0 { // look again for what is still there
		b.burst = burst
		b.idle.Reset(idleAfter)
	}
	b.mu.Unlock()
	debug.FreeOSMemory()
}
