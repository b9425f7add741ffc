//go:build !windows

package tools

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFileSize makes this process fail when it writes more than fileSizeLimit bytes to a
// file.
func limitFileSize() bool {
	signal.Ignore(syscall.SIGXFSZ)
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: fileSizeLimit, Max: fileSizeLimit}) == nil
}

// TestReadOnlyDirectory checks that a read-only directory can be read, and that the error
// for writing is clear.
func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	first, err := OpenStore(dir, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mustSave(t, first, tool("a"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(first.Dir(), lockFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(first.Dir(), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(first.Dir(), 0o700) })
	asUser(t, dir)
	s, err := OpenStore(dir, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(s.List()); got != "a" {
		t.Errorf("List: %s", got)
	}
	if _, _, err := s.Save(tool("b")); err == nil || !strings.Contains(err.Error(), "cannot be written to: ") || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("Save: %v", err)
	}
	if err := s.Delete("a"); err == nil {
		t.Error("Delete is no error")
	}
	// Recorded without waking the store's goroutine, which may have root's rights.
	s.mu.Lock()
	s.pending["a"] = executions{1, mtime}
	s.mu.Unlock()
	if d, err := s.Get("a"); err != nil || d.Metadata.ExecutionCount != 1 {
		t.Errorf("Get: %+v, %v", d, err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "execution counts of a: ") {
		t.Errorf("Close: %v", err)
	}
}
