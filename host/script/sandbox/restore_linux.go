package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flags of an entry of /proc/self/pagemap; see proc_pid_pagemap(5).
const (
	pageOfFile  = 1 << 61 // or shared
	pageSwapped = 1 << 62
	pagePresent = 1 << 63
)

// isPrivate reports whether a page of a mapping of the image, described by an entry of pagemap, is
// a private copy: the guest has written to the page.
func isPrivate(entry uint64) bool {
	return entry&(pagePresent|pageSwapped) != 0 && entry&pageOfFile == 0
}

// entrySize is the size of an entry of pagemap in bytes.
const entrySize = 8

// readEntries reads the entries of the pages of b, one for each entrySize bytes of entries.
func readEntries(pagemap *os.File, b, entries []byte) error {
	first := int64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) / int64(os.Getpagesize())
	_, err := pagemap.ReadAt(entries, first*entrySize)
	return err
}

// ownPages returns how many bytes of b are on private pages.
func ownPages(pagemap *os.File, b []byte) (uint64, error) {
	page := os.Getpagesize()
	var buffer [4096]byte
	own := uint64(0)
	for len(b) > 0 {
		part := b[:min(len(b), len(buffer)/entrySize*page)]
		entries := buffer[:len(part)/page*entrySize]
		if err := readEntries(pagemap, part, entries); err != nil {
			return 0, err
		}
		for ; len(entries) > 0; entries = entries[entrySize:] {
			if isPrivate(binary.NativeEndian.Uint64(entries)) {
				own += uint64(page)
			}
		}
		b = b[len(part):]
	}
	return own, nil
}

// maxExtra is the number of private pages of a restored mapping in addition to the hot ones.
// Copying a page costs less than dropping the page and taking a page fault in the next run, but
// each kept mapping holds the page.
const maxExtra = 64

// maxQuick is the number of pages that a run restores at once, before the answer. Restoring them
// takes less time than passing the work to another goroutine.
const maxQuick = 96

// restore restores the content of the image in the mapping, with some changes: the pages that the
// guest has written, if the system tells them, otherwise all.
func (i *cowImage) restore(m *mapping, c changes) error {
	precise := i.precise && i.restorePrivate(m, c) == nil
	if !precise {
		m.forget()
		if err := i.restoreAll(m); err != nil {
			return err
		}
	}
	page := os.Getpagesize()
	for k, n := range c.pages {
		copy(m.reserved[int(n)*page:][:page], c.content[k*page:])
	}
	return nil
}

// findPrivate finds the private pages of the image in the mapping, unless they are known.
func (i *cowImage) findPrivate(m *mapping) error {
	if m.known {
		return nil
	}
	page := uint64(os.Getpagesize())
	if m.entries == nil {
		m.entries = make([]byte, i.size/page*entrySize)
	}
	whole := m.reserved[:min(i.size, m.usable)]
	entries := m.entries[:uint64(len(whole))/page*entrySize]
	if err := readEntries(i.pages, whole, entries); err != nil {
		return err
	}
	m.private = m.private[:0]
	for n := range len(entries) / entrySize {
		if isPrivate(binary.NativeEndian.Uint64(entries[n*entrySize:])) {
			m.private = append(m.private, uint32(n))
		}
	}
	m.known = true
	return nil
}

// restorePrivate restores the private pages, except for the pages in c, and drops the memory behind
// the image. Afterwards the pages in c count as private.
func (i *cowImage) restorePrivate(m *mapping, c changes) error {
	if err := i.findPrivate(m); err != nil {
		return err
	}
	i.mu.Lock()
	hot := i.hot // replaced as a whole, never changed
	i.mu.Unlock()
	keep := extraPages(m.private, c.pages, hot) <= maxExtra
	page := uint64(os.Getpagesize())
	after, rest := m.spare[:0], c.pages
	var unwanted span
	for _, n := range m.private {
		for len(rest) > 0 && rest[0] < n {
			after, rest = append(after, rest[0]), rest[1:]
		}
		from := uint64(n) * page
		if len(rest) > 0 && rest[0] == n {
			after, rest = append(after, n), rest[1:]
			continue
		}
		if hot[n] || keep {
			i.write(m, span{from, from + page})
			after = append(after, n)
			continue
		}
		if unwanted.to != from {
			if err := m.drop(unwanted.from, unwanted.to); err != nil {
				return err
			}
			unwanted.from = from
		}
		unwanted.to = from + page
	}
	m.private, m.spare = append(after, rest...), m.private
	return errors.Join(m.drop(unwanted.from, unwanted.to), m.drop(i.size, m.usable))
}

// extraPages returns how many private pages are neither hot nor among the changed ones.
// Both lists are in ascending order.
func extraPages(private, changed []uint32, hot []bool) (extra int) {
	for _, n := range private {
		for len(changed) > 0 && changed[0] < n {
			changed = changed[1:]
		}
		if !hot[n] && (len(changed) == 0 || changed[0] != n) {
			extra++
		}
	}
	return extra
}

// changes returns the difference between the mapping and the image, in the part that the image
// covers; ok is false for more than limit bytes.
func (i *cowImage) changes(m *mapping, limit int) (c changes, ok bool) {
	if !i.precise || i.findPrivate(m) != nil {
		return c, false
	}
	page := os.Getpagesize()
	zeros := make([]byte, page)
	for _, n := range m.private {
		from := int(n) * page
		now, then := m.reserved[from:from+page], zeros
		if from < len(i.source) {
			then = i.source[from : from+page]
		}
		if bytes.Equal(now, then) {
			continue
		}
		if len(c.content)+page > limit {
			return c, false
		}
		c.pages = append(c.pages, n)
		c.content = append(c.content, now...)
	}
	c.content = slices.Clip(c.content)
	return c, true
}

// write writes the content of the image to a range of the mapping, which begins and
// ends with a page.
func (i *cowImage) write(m *mapping, s span) {
	n := copy(m.reserved[s.from:s.to], i.source[min(s.from, i.mapped):min(s.to, i.mapped)])
	clear(m.reserved[s.from+uint64(n) : s.to])
}

// restoreAll copies the hot pages and drops all others.
func (i *cowImage) restoreAll(m *mapping) error {
	i.mu.Lock()
	copied := i.copied // replaced as a whole, never changed
	i.mu.Unlock()
	from := uint64(0)
	for _, s := range copied {
		if s.to > m.usable {
			break
		}
		if err := m.drop(from, s.from); err != nil {
			return err
		}
		i.write(m, s)
		from = s.to
	}
	return m.drop(from, m.usable)
}

// errPagemap says that pagemap does not describe the pages of a mapping.
var errPagemap = errors.New("/proc/self/pagemap does not tell which pages are private")

// checkedPages is how many pages of the image checkPagemap looks at.
const checkedPages = 32

// checkPagemap checks, with a mapping of the image, that pagemap says exactly which pages were
// written: a restored mapping is only clean if pagemap is right. Some systems that imitate Linux
// have no pagemap, or an empty one.
func (i *cowImage) checkPagemap() error {
	page := uint64(os.Getpagesize())
	m, err := i.newMapping(i.mapped + page)
	if err != nil {
		return err
	}
	defer m.unmap()
	if err := unix.Mprotect(m.reserved[i.mapped:], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	checked := m.reserved[:min(i.mapped, checkedPages*page)]
	written := func(n uint64) bool { return n%2 == 1 }
	for n := range uint64(len(checked)) / page {
		if written(n) {
			checked[n*page]++
		} else if checked[n*page] != i.source[n*page] {
			return fmt.Errorf("page %d of a mapping is not that of the image", n)
		}
	}
	check := func(pages []byte, written func(uint64) bool) error {
		entries := make([]byte, uint64(len(pages))/page*entrySize)
		if err := readEntries(i.pages, pages, entries); err != nil {
			return err
		}
		for n := range uint64(len(pages)) / page {
			if isPrivate(binary.NativeEndian.Uint64(entries[n*entrySize:])) != written(n) {
				return fmt.Errorf("%w (page %d)", errPagemap, n)
			}
		}
		return nil
	}
	if err := check(checked, written); err != nil {
		return err
	}
	behind := m.reserved[i.mapped:]
	if err := check(behind, func(uint64) bool { return false }); err != nil {
		return err
	}
	behind[0] = 1
	return check(behind, func(uint64) bool { return true })
}
