package sandbox

import "github.com/tetratelabs/wazero/experimental"

const pageSize = 64 << 10

// maxMemory is the largest memory, in bytes, that wazero can address with 32-bit sizes.
const maxMemory = 4<<30 - pageSize

// guestMemory is how much of Limits.Memory, in bytes, is for the guest itself.
const guestMemory = 6 << 20

// makeRoom adds to the limit of the instance the memory that the guest needs beyond guestMemory
// before a script runs. So the interpreter and the library may grow without leaving less for
// scripts. start is the size of the memory in which the script starts.
func (i *instance) makeRoom(start uint64) {
	i.extra = max(start, guestMemory) - guestMemory
	i.room = min(i.limits.Memory+i.extra, maxMemory)
	i.script.Memory = i.room
}

// memory is the linear memory of an instance. wazero grows the memory. After the run, the sandbox
// reads the figures and releases the memory.
//
// Free does nothing. wazero calls Free when closing the instance, maybe in the middle of a call
// whose context ends, when the host may still read the memory. The sandbox calls Release when the
// instance is no longer used.
type memory interface {
	experimental.LinearMemory // Reallocate returns nil for a size over the limit
	// Peak is the largest size so far, in bytes.
	Peak() uint64
	// Refused reports whether the memory was not allowed to grow.
	Refused() bool
	// OnGrow sets a function that is called before the memory grows, with the number of bytes. If
	// grow returns false, the memory does not grow.
	OnGrow(grow func(bytes uint64) bool)
	// Held is the current part of the machine's memory, in bytes: the size, or less if parts are
	// known to be shared.
	Held() uint64
	// Release frees the memory. Further calls do nothing.
	Release()
}

// gauge tracks and limits the size of a memory. All kinds of memory embed gauge.
type gauge struct {
	limit   uint64 // bytes, whole pages
	size    uint64
	peak    uint64
	refused bool
	grow    func(bytes uint64) bool // see memory.OnGrow; nil: always true
}

// allow reports whether the memory may have the size, and records the size.
func (g *gauge) allow(size uint64) bool {
	if size > g.limit || size > g.size && g.grow != nil && !g.grow(size-g.size) {
		g.refused = true
		return false
	}
	g.size = max(g.size, size)
	g.peak = max(g.peak, size)
	return true
}

func (g *gauge) Peak() uint64                 { return g.peak }
func (g *gauge) Refused() bool                { return g.refused }
func (g *gauge) OnGrow(f func(b uint64) bool) { g.grow = f }
func (g *gauge) Held() uint64                 { return g.size }
func (*gauge) Free()                          {}

// heapMemory is memory on the host's heap, for systems without a better kind. heapMemory starts at
// the size in the guest's module and grows by half, so a large memory is copied only a few times
// and a small memory stays small.
type heapMemory struct {
	gauge
	buf []byte
}

func newHeapMemory(limit uint64) *heapMemory { return &heapMemory{gauge: gauge{limit: limit}} }

func (m *heapMemory) Reallocate(size uint64) []byte {
	if !m.allow(size) {
		return nil
	}
	if size > uint64(cap(m.buf)) {
		grown := make([]byte, size, min(max(size, uint64(cap(m.buf))*3/2), m.limit))
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf = m.buf[:size]
	return m.buf
}

func (m *heapMemory) Release() { m.buf = nil }
