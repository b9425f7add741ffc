package sandbox

import (
	"github.com/tetratelabs/wazero/experimental"
)

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

// image is the content of the memory that instances start with. The methods are safe for concurrent
// use.
type image interface {
	// Size is the length of the image in bytes, whole wasm pages.
	Size() uint64
	// Base is the part of the machine's memory, in bytes, that a typical run uses if the run's
	// memory does not grow: at most Size.
	Base() uint64
	// Open returns memory that gets the content of the image when wazero allocates the memory. The
	// memory may grow to limit bytes; limit is at least Size.
	Open(limit uint64) memory
	// Learn receives the memory of an ended typical run, before its release. The parts that differ
	// from the image are the parts that most runs change.
	Learn(m memory)
	// Close frees the image. All opened memory must have been released.
	Close()
}

// changes is the difference between memory and its image: some whole pages of the system, with
// their content. The zero value is no difference.
type changes struct {
	pages   []uint32 // their numbers, in ascending order
	content []byte
}

func (c changes) bytes() int { return len(c.content) + 4*len(c.pages) }

// span is a range of bytes.
type span struct{ from, to uint64 }

// copyImage is an image that is copied into each memory, for systems without copy on write.
type copyImage struct {
	size    uint64
	content []byte // up to the last byte that is not zero
	// filled has the parts of content that are not zero; only these are copied.
	filled []span
}

// copyGrain is the length, in bytes, of the pieces that are skipped if they are zero.
const copyGrain = 4 << 10

func newCopyImage(content []byte) *copyImage {
	i := &copyImage{size: uint64(len(content))}
	i.filled = spans(len(content), copyGrain, 0, func(from, to int) bool { return !isZero(content[from:to]) })
	if n := len(i.filled); n > 0 {
		i.content = append(i.content, content[:i.filled[n-1].to]...)
	}
	return i
}

func (i *copyImage) Size() uint64 { return i.size }
func (i *copyImage) Base() uint64 { return i.size }
func (*copyImage) Learn(memory)   {}
func (*copyImage) Close()         {}

func (i *copyImage) Open(limit uint64) memory {
	return &copiedMemory{memory: newMemory(limit), image: i}
}

// copiedMemory is memory that starts with a copy of an image.
type copiedMemory struct {
	memory
	image  *copyImage
	filled bool
}

func (m *copiedMemory) Reallocate(size uint64) []byte {
	if m.filled {
		return m.memory.Reallocate(size)
	}
	b := m.memory.Reallocate(max(size, m.image.size))
	for _, s := range m.image.filled {
		copy(b[s.from:s.to], m.image.content[s.from:s.to])
	}
	m.filled = b != nil
	return b
}

// spans divides length bytes into pieces of grain bytes and returns the wanted ones. Neighbours are
// joined, and also pieces with up to gap unwanted ones between them.
func spans(length, grain, gap int, wanted func(from, to int) bool) []span {
	var list []span
	for from := 0; from < length; from += grain {
		to := min(from+grain, length)
		if !wanted(from, to) {
			continue
		}
		if n := len(list); n > 0 && list[n-1].to+uint64(gap*grain) >= uint64(from) {
			list[n-1].to = uint64(to)
			continue
		}
		list = append(list, span{uint64(from), uint64(to)})
	}
	return list
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
