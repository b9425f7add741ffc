package sandbox

import "github.com/tetratelabs/wazero/experimental"

const pageSize = 64 << 10

// maxMemory is as much as wazero can address with its 32-bit sizes.
const maxMemory = 4<<30 - pageSize

// memory is the linear memory of one instance. wazero grows it; the sandbox
// asks afterwards how that went, and gives it back.
//
// wazero's Free does nothing: wazero calls it when it closes the instance, be
// it in the middle of a call that its context ends, and the host may still look
// at the memory then. Release comes when the instance is no longer used.
type memory interface {
	experimental.LinearMemory // Reallocate refuses, with nil, what is over the limit
	// Peak is the most bytes it ever had.
	Peak() uint64
	// Refused tells whether it was to grow over its limit, or was not let.
	Refused() bool
	// OnGrow has grow called before it grows by so many bytes: false refuses.
	OnGrow(grow func(bytes uint64) bool)
	// Held is how much of the machine's memory it takes now, in bytes: its size,
	// or less where it is known that parts of it are nobody's own.
	Held() uint64
	// Release gives the memory back to the system. It may be called again.
	Release()
}

// gauge is what every kind of memory knows of its size.
type gauge struct {
	limit   uint64 // bytes, whole pages
	size    uint64
	peak    uint64
	refused bool
	grow    func(bytes uint64) bool // nil: it may
}

// allow tells whether memory may have that size, and notes it.
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

// heapMemory is memory on the host's own heap, for systems without a better
// kind. It starts as large as the guest asks for and grows by half, so that a
// large one is copied a few times only and a small one stays small.
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
