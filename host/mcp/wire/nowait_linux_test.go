package wire

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestNoWait(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	now := NewNoWait(w)
	part := bytes.Repeat([]byte("x"), 4096)
	total := 0
	for n := -1; n != 0; total += n {
		n = now.Write(part)
	}
	if total == 0 || total%len(part) != 0 {
		t.Errorf("the pipe took %d bytes", total)
	}
	if _, err := io.ReadFull(r, make([]byte, total)); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { now.Write(part[:10]) }); n > 0 {
		t.Errorf("a write allocates %v times", n)
	}
	w.Close()
	if n := now.Write(part); n != 0 {
		t.Errorf("%d bytes after Close", n)
	}
}

// TestNoWaitNeedsReader checks what has no reader that could be waited for.
func TestNoWaitNeedsReader(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var none *os.File
	for name, w := range map[string]io.Writer{"buffer": &bytes.Buffer{}, "file": file, "nil file": none} {
		if now := NewNoWait(w); now != nil || now.Write([]byte("x")) != 0 {
			t.Errorf("%s: it writes", name)
		}
	}
}
