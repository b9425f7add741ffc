package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cowImage is an image in a sealed memory file. Each memory is a private mapping of the file, so an
// instance only holds written pages, and a new instance costs the same for any size of the image.
//
// Released mappings are reused, once their content is restored (restore_linux.go). Pages that most
// runs write are restored by copying, which saves page faults. Other pages are dropped if they are
// many, so that the next access finds the file's page again (or zeros, behind the end of the file).
type cowImage struct {
	file   int // descriptor
	size   uint64
	mapped uint64 // the length of the file: up to the last page that is not zero
	source []byte // the file, mapped for reading
	// pages is /proc/self/pagemap; nil if unreadable.
	pages *os.File
	// precise says that pages tells which pages of a mapping were written.
	precise bool
	// counted says that the system counts the page faults of a thread.
	counted bool

	mu     sync.Mutex
	hot    []bool // by page: written by a typical run; replaced as a whole
	copied []span // the hot pages as joined ranges; replaced as a whole
	base   uint64 // length of copied in bytes
	idle   []*mapping
}

// maxGap is the number of pages between two hot pages that are copied with them: a system call
// costs about as much as a copy of these pages.
const maxGap = 2

// newImage makes an image with a copy of content. If the system does not allow a sealed memory
// file, the image is a copyImage.
func newImage(content []byte) (image, error) {
	i, err := newCOWImage(content)
	if err != nil {
		return newCopyImage(content), fmt.Errorf("memory of instances is copied: %w", err)
	}
	return i, nil
}

func newCOWImage(content []byte) (_ *cowImage, err error) {
	page := os.Getpagesize()
	filled := spans(len(content), page, 0, func(from, to int) bool { return !isZero(content[from:to]) })
	if len(filled) == 0 {
		filled = []span{{0, uint64(page)}} // a mapping cannot be empty
	}
	i := &cowImage{size: uint64(len(content)), mapped: filled[len(filled)-1].to}
	i.file, err = unix.MemfdCreate("sandbox-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			i.Close()
		}
	}()
	if err := unix.Ftruncate(i.file, int64(i.mapped)); err != nil {
		return nil, err
	}
	for _, s := range filled {
		for part := content[s.from:s.to]; len(part) > 0; {
			n, err := unix.Pwrite(i.file, part, int64(s.to)-int64(len(part)))
			if err != nil {
				return nil, err
			}
			part = part[n:]
		}
	}
	// From here on nothing can change the file, not even a writable mapping.
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(i.file), unix.F_ADD_SEALS, seals); err != nil {
		return nil, err
	}
	// Private although only read: older kernels refuse shared mappings of a sealed file.
	i.source, err = unix.Mmap(i.file, 0, int(i.mapped), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	i.hot = make([]bool, i.size/uint64(page))
	// Without pagemap, more memory is charged, and more is restored.
	if i.pages, _ = os.Open("/proc/self/pagemap"); i.pages != nil {
		i.precise = i.checkPagemap() == nil
		i.counted = i.precise && i.checkFaults() == nil
	}
	return i, nil
}

func (i *cowImage) Size() uint64 { return i.size }

func (i *cowImage) Base() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pages == nil {
		return i.size
	}
	return i.base
}

func (i *cowImage) Open(limit uint64) memory {
	return &cowMemory{gauge: gauge{limit: limit}, image: i, mapping: i.reuse(limit)}
}

// reuse returns a kept mapping with room for limit bytes; nil for none.
func (i *cowImage) reuse(limit uint64) *mapping {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := len(i.idle) - 1; n >= 0; n-- {
		if m := i.idle[n]; uint64(len(m.reserved)) >= limit {
			i.idle = slices.Delete(i.idle, n, n+1)
			m.forget()
			return m
		}
	}
	return nil
}

// keep keeps a restored mapping for a later run. If too many are kept, keep frees the least
// recently used mapping, which may be too small for the current limits.
func (i *cowImage) keep(m *mapping) {
	var excess *mapping
	i.mu.Lock()
	if i.idle = append(i.idle, m); len(i.idle) > idlePerCPU*runtime.GOMAXPROCS(0) {
		excess = i.idle[0]
		i.idle = slices.Delete(i.idle, 0, 1)
	}
	i.mu.Unlock()
	if excess != nil {
		excess.unmap()
	}
}

func (i *cowImage) Learn(m memory) {
	cow, ok := m.(*cowMemory)
	if !ok || cow.mapping == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	page := os.Getpagesize()
	hot := slices.Clone(i.hot)
	spans(int(i.size), page, 0, func(from, to int) bool {
		if now := cow.reserved[from:to]; uint64(to) <= i.mapped && !bytes.Equal(now, i.source[from:to]) || uint64(to) > i.mapped && !isZero(now) {
			hot[from/page] = true
		}
		return false
	})
	i.hot, i.base = hot, 0
	i.copied = spans(int(i.size), page, maxGap, func(from, _ int) bool { return hot[from/page] })
	for _, s := range i.copied {
		i.base += s.to - s.from
	}
}

func (i *cowImage) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range i.idle {
		m.unmap()
	}
	i.idle = nil
	// These fail only for a descriptor that is not open or a range that is not a mapping.
	if i.source != nil {
		_ = unix.Munmap(i.source)
		i.source = nil
	}
	_ = unix.Close(i.file)
	if i.pages != nil {
		_ = i.pages.Close()
	}
}

// mapping is a range of addresses: first the image, then zeros up to usable, then
// inaccessible addresses.
type mapping struct {
	reserved []byte
	usable   uint64 // accessible bytes: the largest size that any run had
	// private has the private pages of the image, if known. entries and spare are buffers, for the
	// content of pagemap and for another list.
	known          bool
	private, spare []uint32
	entries        []byte
	// watched says that a thread executes the guest, with faults page faults before
	// (faults_linux.go).
	watched bool
	faults  int64
}

// newMapping reserves length bytes and puts the image at their start.
func (i *cowImage) newMapping(length uint64) (*mapping, error) {
	reserved, err := unix.Mmap(-1, 0, int(length), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	_, err = unix.MmapPtr(i.file, 0, unsafe.Pointer(unsafe.SliceData(reserved)), uintptr(i.mapped),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		_ = unix.Munmap(reserved)
		return nil, err
	}
	return &mapping{reserved: reserved, usable: i.mapped}, nil
}

// drop discards the written content of a range of pages.
func (m *mapping) drop(from, to uint64) error {
	if from >= to {
		return nil
	}
	return unix.Madvise(m.reserved[from:to], unix.MADV_DONTNEED)
}

func (m *mapping) unmap() {
	// Munmap can only fail for a range that is not a mapping. Mappings over the start of the range
	// are removed too.
	_ = unix.Munmap(m.reserved)
}

// cowMemory is a memory in a mapping of a cowImage.
type cowMemory struct {
	gauge
	image    *cowImage
	*mapping      // nil before Allocate, and after Release
	open     bool // wazero has asked for memory
}

func (m *cowMemory) Reallocate(size uint64) []byte {
	if !m.open {
		size = max(size, m.image.size)
	}
	if !m.allow(size) {
		return nil
	}
	if m.mapping == nil {
		var err error
		if m.mapping, err = m.image.newMapping(m.limit); err != nil {
			m.refused = true // the system has no more memory; the guest sees no difference
			return nil
		}
	}
	if size > m.usable {
		if err := unix.Mprotect(m.reserved[m.usable:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			m.refused = true
			return nil
		}
		m.usable = size
	}
	m.open = true
	return m.reserved[:size:size]
}

// Held counts all memory after the image, and the written pages of the image.
func (m *cowMemory) Held() uint64 {
	if m.mapping == nil || m.image.pages == nil {
		return m.size
	}
	own := uint64(len(m.private) * os.Getpagesize())
	if !m.known && !m.unchanged() {
		var err error
		if own, err = ownPages(m.image.pages, m.reserved[:m.image.size]); err != nil {
			return m.size
		}
	}
	return own + m.size - m.image.size
}

// Watch implements restorable.
func (m *cowMemory) Watch() {
	if m.image.counted {
		m.watch()
	} else {
		m.forget()
	}
}

// Unwatch implements restorable.
func (m *cowMemory) Unwatch() { m.unwatch() }

// Forget implements restorable.
func (m *cowMemory) Forget() { m.forget() }

// Quick implements restorable.
func (m *cowMemory) Quick() bool { return m.known && len(m.private) <= maxQuick }

// Restore implements restorable.
func (m *cowMemory) Restore(c changes) bool {
	return m.original() && m.image.restore(m.mapping, c) == nil
}

// original reports whether the memory has the size of the image.
func (m *cowMemory) original() bool {
	return m.mapping != nil && !m.refused && m.size == m.image.size
}

// Changes implements restorable.
func (m *cowMemory) Changes(limit int) (c changes, ok bool) {
	if !m.original() {
		return changes{}, false
	}
	return m.image.changes(m.mapping, limit)
}

// Fits implements restorable.
func (m *cowMemory) Fits(limit uint64) bool {
	return limit >= m.size && uint64(len(m.reserved)) >= limit
}

// Reopen implements restorable.
func (m *cowMemory) Reopen(limit uint64) bool {
	if !m.Fits(limit) {
		return false
	}
	m.gauge = gauge{limit: limit, size: m.size, peak: m.size}
	return true
}

// Release restores the mapping and keeps it for a later run. If restoring fails, the mapping is
// freed.
func (m *cowMemory) Release() {
	if m.mapping == nil {
		return
	}
	if m.image.restore(m.mapping, changes{}) == nil {
		m.image.keep(m.mapping)
	} else {
		m.unmap()
	}
	m.mapping = nil
}
