package sandbox

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Asking the system for the private pages of a mapping takes as long as a short script. The
// question is only needed if more pages may be private than before. A page gets private at the
// first write, by a page fault of the writing thread. So if the thread that executes the guest has
// no page fault meanwhile, the private pages are the same as before.

// threadFaults returns how many page faults the calling thread has had.
func threadFaults() (n int64, ok bool) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return int64(u.Minflt) + int64(u.Majflt), err == nil
}

// watch begins to count page faults if the private pages are known. Until unwatch, the calling
// goroutine keeps its thread, and the private pages are unknown.
func (m *mapping) watch() {
	if !m.known {
		return
	}
	m.known = false
	runtime.LockOSThread()
	if m.faults, m.watched = threadFaults(); !m.watched {
		runtime.UnlockOSThread()
	}
}

// unwatch ends the counting. The private pages are known again if no page fault occurred.
func (m *mapping) unwatch() {
	if m.watched {
		m.known = m.unchanged()
		m.watched = false
		runtime.UnlockOSThread()
	}
}

// forget ends the counting too, but leaves the private pages unknown: other threads may write.
func (m *mapping) forget() {
	m.unwatch()
	m.known = false
}

// unchanged reports whether no page fault occurred since watch.
func (m *mapping) unchanged() bool {
	now, ok := threadFaults()
	return m.watched && ok && now == m.faults
}

// errFaults says that the system does not count the page faults of a thread.
var errFaults = errors.New("getrusage does not count page faults")

// checkFaults checks that the first write to each page is counted as a page fault, both for a page
// that was read before and for an untouched page. Some systems that imitate Linux count nothing.
func (i *cowImage) checkFaults() error {
	page := uint64(os.Getpagesize())
	m, err := i.newMapping(i.mapped + page)
	if err != nil {
		return err
	}
	defer m.unmap()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	checked := m.reserved[:min(i.mapped, checkedPages*page)]
	for n := range uint64(len(checked)) / page {
		if n%2 == 0 && checked[n*page] != i.source[n*page] {
			return errFaults
		}
		before, ok := threadFaults()
		checked[n*page]++
		if after, _ := threadFaults(); !ok || after <= before {
			return errFaults
		}
	}
	return nil
}
