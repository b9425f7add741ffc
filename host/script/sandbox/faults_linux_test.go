package sandbox

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// watchedImage returns an image with pages that are not zero, and zeros behind them.
func watchedImage(t *testing.T) (i *cowImage, content []byte) {
	t.Helper()
	content = make([]byte, 8*pageSize)
	for n := range 6 * pageSize {
		content[n] = byte(n>>12) | 1
	}
	made, err := newImage(content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	if i = made.(*cowImage); !i.counted {
		testenv.Lacks(t, "faults", "the page faults of a thread are not counted by this kernel")
	}
	return i, content
}

// TestWatch checks, for random writes and states, that a mapping is restored exactly
// although the system is only asked for its private pages when there was a page fault.
func TestWatch(t *testing.T) {
	i, content := watchedImage(t)
	page, r := os.Getpagesize(), rand.New(rand.NewPCG(1, 2))
	state := func(pages ...uint32) (c changes, want []byte) {
		want = bytes.Clone(content)
		for _, n := range pages {
			copy(want[int(n)*page:], bytes.Repeat([]byte{byte(n) + 100}, page))
			c.content = append(c.content, want[int(n)*page:][:page]...)
		}
		c.pages = pages
		return c, want
	}
	last := uint32(len(content)/page - 1)
	m := i.Open(uint64(2 * len(content))).(*cowMemory)
	defer m.Release()
	b := m.Reallocate(uint64(len(content)))
	want, known, all := content, 0, 0
	rounds := 500
	if *long {
		rounds = 20_000
	}
	for n := range rounds {
		if !bytes.Equal(b, want) {
			t.Fatalf("round %d: byte %d differs", n, difference(b, want))
		}
		m.Watch()
		area := page << r.IntN(8) // often no new page
		for range r.IntN(20) {
			b[r.IntN(min(area, len(b)))]++
		}
		switch n % 11 {
		case 3: // it waits, as for a tool
			m.Unwatch()
			m.Watch()
			b[r.IntN(len(b))]++
		case 7: // it takes long
			m.Forget()
			b[r.IntN(len(b))]++
		}
		m.Unwatch()
		all++
		if m.known {
			known++
		}
		var c changes
		switch r.IntN(4) {
		case 0:
			c, want = state(0, 3, uint32(r.IntN(int(last)-4)+4))
		case 1:
			c, want = state(last)
		default:
			c, want = state()
		}
		if !m.Restore(c) || !m.Reopen(uint64(2*len(content))) {
			t.Fatalf("round %d: not restored", n)
		}
		private := map[uint32]bool{}
		for _, p := range m.private {
			private[p] = true
		}
		for _, p := range c.pages {
			if !private[p] {
				t.Fatalf("round %d: page %d of a state does not count as private", n, p)
			}
		}
	}
	if known < all/4 || known == all {
		t.Errorf("the private pages were known after %d of %d rounds", known, all)
	}
}

// TestWatchIsNeeded checks that memory which is used without being watched is looked at,
// and that an image on a system that counts no page faults never trusts its list.
func TestWatchIsNeeded(t *testing.T) {
	i, content := watchedImage(t)
	m := i.Open(uint64(len(content))).(*cowMemory)
	b := m.Reallocate(uint64(len(content)))
	m.Watch()
	b[1]++
	m.Unwatch()
	if m.known || m.Quick() {
		t.Error("the private pages are known without a look at pagemap")
	}
	if !m.Restore(changes{}) || !m.known || !m.Quick() {
		t.Error("the private pages are not known after restoring")
	}
	m.Release()
	m = i.Open(uint64(len(content))).(*cowMemory)
	if b = m.Reallocate(uint64(len(content))); m.known {
		t.Error("the private pages of reopened memory are known without a watch")
	}
	b[pageSize]++
	m.Release()
	i.counted = false
	m = i.Open(uint64(len(content))).(*cowMemory)
	b = m.Reallocate(uint64(len(content)))
	for range 3 {
		m.Watch()
		b[pageSize]++
		m.Unwatch()
		if m.known {
			t.Error("page faults are trusted that are not counted")
		}
		if !m.Restore(changes{}) || !bytes.Equal(b, content) {
			t.Error("not restored")
		}
	}
	m.Release()
}

// TestThreadFaults checks that a page fault is noticed, and that a thread without one is
// not disturbed by those of others.
func TestThreadFaults(t *testing.T) {
	i, _ := watchedImage(t)
	m := &mapping{known: true}
	noticed := func(work func()) bool {
		m.known = true
		m.watch()
		work()
		m.unwatch()
		return !m.known
	}
	if err := i.checkFaults(); err != nil {
		t.Error(err)
	}
	page := os.Getpagesize()
	fresh, err := unix.Mmap(-1, 0, 200*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(fresh) }()
	_ = unix.Madvise(fresh, unix.MADV_NOHUGEPAGE) // otherwise one page fault is for all
	for n := range 100 {
		if !noticed(func() { fresh[n*page] = 1 }) {
			t.Fatalf("page %d: no page fault was noticed", n)
		}
	}
	quiet := 0
	for n := range 100 {
		if !noticed(func() {
			done := make(chan bool)
			go func() { fresh[(100+n)*page] = 1; close(done) }()
			<-done
		}) {
			quiet++
		}
	}
	if quiet == 0 {
		t.Error("each page fault of another thread was noticed")
	}
}
