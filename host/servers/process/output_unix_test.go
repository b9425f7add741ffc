//go:build unix

package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestOutputEndsWithTheProcess checks that the rest of a process's output in the pipe is read, and
// that the output then ends, even if another process holds the pipe open or writes to the pipe
// without end.
func TestOutputEndsWithTheProcess(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	left := bytes.Repeat([]byte("x"), 50_000) // fits into the pipe
	read := make(chan []byte)
	go func() {
		all, err := io.ReadAll(&output{file: r})
		if err != nil {
			t.Error(err)
		}
		read <- all
	}()
	if _, err := w.Write(left); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := <-read; !bytes.Equal(got, left) {
		t.Errorf("%d bytes of %d", len(got), len(left))
	}

	wrote := make(chan error)
	go func() {
		for {
			if _, err := w.Write(left); err != nil {
				wrote <- err
				return
			}
		}
	}()
	if n, err := io.Copy(io.Discard, &output{file: r}); n > maxRest || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.Close()
	if err := <-wrote; !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
}
