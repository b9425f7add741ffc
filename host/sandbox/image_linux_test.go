package sandbox

import (
	"bytes"
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
