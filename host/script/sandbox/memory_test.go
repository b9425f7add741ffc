package sandbox

import (
	"bytes"
	"testing"
)

func TestMemory(t *testing.T) {
	for name, m := range map[string]memory{"heap": newHeapMemory(10 * pageSize), "of this system": newMemory(10 * pageSize)} {
		t.Run(name, func(t *testing.T) {
			defer m.Release()
			b := m.Reallocate(2 * pageSize)
			b[0], b[2*pageSize-1] = 1, 2
			copies := 0
			for pages := uint64(3); pages <= 10; pages++ {
				was := &b[0]
				if b = m.Reallocate(pages * pageSize); uint64(len(b)) != pages*pageSize {
					t.Fatalf("%d bytes for %d pages", len(b), pages)
				}
				if &b[0] != was {
					copies++
				}
				if cap(b) > 10*pageSize {
					t.Errorf("%d bytes reserved", cap(b))
				}
			}
			if b[0] != 1 || b[2*pageSize-1] != 2 || bytes.Count(b, []byte{0}) != len(b)-2 {
				t.Error("content is lost, or grown memory is not zero")
			}
			if copies > 4 {
				t.Errorf("copied %d times", copies)
			}
			if m.Refused() || m.Reallocate(11*pageSize) != nil || !m.Refused() || m.Peak() != 10*pageSize {
				t.Errorf("refused %v, peak %d", m.Refused(), m.Peak())
			}
			m.Free()
			if b[0] != 1 {
				t.Error("freed before it is released")
			}
			m.Release()
			m.Release()
		})
	}
}
