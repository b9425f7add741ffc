//go:build unix

package sandbox

import "golang.org/x/sys/unix"

// mappedMemory is memory outside the host's heap. Addresses up to the limit are reserved, for free,
// and made usable as the memory grows. So the memory is never copied, holds no more than the guest
// has touched, and is freed at the release, not when the garbage collector runs.
type mappedMemory struct {
	gauge
	reserved []byte // the whole range; inaccessible beyond usable
	usable   uint64
}

// newMemory returns empty memory with room for limit bytes.
func newMemory(limit uint64) memory {
	if limit == 0 {
		return newHeapMemory(0)
	}
	reserved, err := unix.Mmap(-1, 0, int(limit), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil { // the system limits addresses
		return newHeapMemory(limit)
	}
	return &mappedMemory{gauge: gauge{limit: limit}, reserved: reserved}
}

func (m *mappedMemory) Reallocate(size uint64) []byte {
	if !m.allow(size) {
		return nil
	}
	if size > m.usable {
		// The first page of memory is a multiple of every system's own pages.
		if err := unix.Mprotect(m.reserved[m.usable:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			m.refused = true // the system has no more memory; the guest sees no difference
			return nil
		}
		m.usable = size
	}
	return m.reserved[:size:size]
}

func (m *mappedMemory) Release() {
	if m.reserved != nil {
		// Munmap can only fail for a range that is not a mapping.
		_ = unix.Munmap(m.reserved)
		m.reserved = nil
	}
}
