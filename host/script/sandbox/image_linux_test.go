package sandbox

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// imageMappings counts the mappings of images in this process.
func imageMappings(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "memfd:sandbox-image")
}

// TestImage checks that a limited number of mappings is kept for later runs, that
// each is restored after any writes and growth, and that all are freed with the image.
func TestImage(t *testing.T) {
	content := make([]byte, 6*pageSize)
	copy(content[pageSize:], "content")
	before := imageMappings(t)
	image, err := newImage(content)
	if err != nil {
		t.Fatal(err)
	}
	most := idlePerCPU * runtime.GOMAXPROCS(0)
	for _, limit := range []uint64{6, 8, 32} {
		var opened []memory
		for range most + 3 {
			m := image.Open(limit * pageSize)
			b := m.Reallocate(pageSize)
			if !bytes.Equal(b, content) {
				t.Fatalf("it starts with %d other bytes, %d differ first", len(b), difference(b, content))
			}
			b = m.Reallocate(limit * pageSize)
			if !isZero(b[len(content):]) {
				t.Fatal("grown memory is not zero")
			}
			for n := range b {
				b[n] = 0xff
			}
			if m.Reallocate((limit+1)*pageSize) != nil || !m.Refused() || m.Peak() != limit*pageSize {
				t.Fatal("it has grown over its limit")
			}
			if len(opened) == 0 {
				image.Learn(m) // from now on all pages of the content are copied
			}
			opened = append(opened, m)
		}
		for _, m := range slices.Concat(opened, opened) {
			m.Release()
		}
		if idle := image.(*cowImage).idle; len(idle) > most {
			t.Errorf("%d mappings are kept", len(idle))
		}
	}
	image.Open(pageSize * 6).Release() // never used
	image.Close()
	if after := imageMappings(t); after != before {
		t.Errorf("%d mappings are left", after-before)
	}
}

// TestEmptyImage checks an image of only zeros.
func TestEmptyImage(t *testing.T) {
	image, err := newImage(make([]byte, pageSize))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	m := image.Open(2 * pageSize)
	if b := m.Reallocate(0); len(b) != pageSize || !isZero(b) {
		t.Errorf("%d bytes", len(b))
	}
	m.Release()
}

// withoutPagemap returns the snapshot with an image that does not know which pages were
// written.
func withoutPagemap(t *testing.T, s *snapshot) *snapshot {
	t.Helper()
	c := *s
	var err error
	if c.image, err = newImage(contentOf(t, s)); err != nil {
		t.Fatal(err)
	}
	c.image.(*cowImage).precise = false
	c.prepared = newPreparedStates()
	c.pool = newPool(&c, real().log)
	t.Cleanup(c.free)
	return &c
}

// testRestore writes to random pages of mappings of an image and restores them.
func testRestore(t *testing.T, made image, content []byte, r *rand.Rand) {
	i := made.(*cowImage)
	if !i.precise {
		t.Error("pagemap does not tell which pages are written")
	}
	page := os.Getpagesize()
	size, limit := int(i.size), int(i.size)+64*pageSize
	rounds := 22
	if *long {
		rounds = 1000
	}
	for n := range rounds {
		i.precise = n%5 > 0
		m := i.Open(uint64(limit)).(*cowMemory)
		b := m.Reallocate(uint64(size))
		if !bytes.Equal(b, content) {
			t.Fatalf("round %d: byte %d differs", n, difference(b, content))
		}
		for range r.IntN(300) {
			b[r.IntN(size)]++
		}
		if n%7 == 0 { // many pages, one after the other
			for at := range 200 {
				b[min(size-1, size/2+at*page)] = 1
			}
		}
		if n < 3 {
			i.Learn(m)
		}
		if n%3 > 0 {
			if !m.Restore(changes{}) || !m.Reopen(uint64(limit)) {
				t.Fatal("not restored")
			}
			if !bytes.Equal(b, content) {
				t.Fatalf("round %d: byte %d differs in place", n, difference(b, content))
			}
			m.Forget() // reading has mapped pages of zeros, which count as private
		}
		if grown := m.Reallocate(uint64(limit)); n%2 == 0 {
			if !isZero(grown[size:]) {
				t.Fatalf("round %d: grown memory is not zero", n)
			}
			for range 50 {
				grown[size+r.IntN(limit-size)] = 1
			}
			if m.Restore(changes{}) {
				t.Fatal("memory that has grown is used again")
			}
		}
		mapping := m.mapping
		m.Release()
		own, err := ownPages(i.pages, mapping.reserved[:size])
		if err != nil {
			t.Fatal(err)
		}
		if most := i.Base() + uint64(maxExtra*page); own > most {
			t.Errorf("round %d: it keeps %d bytes, more than %d", n, own, most)
		}
	}
}

// TestPagemapIsChecked checks that a file that does not describe a mapping is not
// believed.
func TestPagemapIsChecked(t *testing.T) {
	content := make([]byte, 4*pageSize)
	for n := range content {
		content[n] = byte(n) | 1
	}
	made, err := newImage(content)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	i := made.(*cowImage)
	if err := i.checkPagemap(); err != nil {
		t.Error(err)
	}
	zeros, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zeros.Close()
	real := i.pages
	defer func() { i.pages = real }()
	for name, other := range map[string]func() (*os.File, error){
		"zeros":              func() (*os.File, error) { return zeros, nil },
		"empty":              func() (*os.File, error) { return os.Open(os.DevNull) },
		"of another process": func() (*os.File, error) { return os.Open("/proc/1/pagemap") },
	} {
		if i.pages, err = other(); err != nil {
			continue
		}
		if i.checkPagemap() == nil {
			t.Errorf("%s is believed", name)
		}
	}
}
