package regular

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// TestSyncFolderUnsupported checks that a file system whose folders cannot be synced, such
// as /proc and some network file systems, is no error.
func TestSyncFolderUnsupported(t *testing.T) {
	root, err := os.OpenRoot("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Sync(); !errors.Is(err, syscall.EINVAL) {
		t.Fatalf("/proc can be synced: %v", err)
	}
	if err := SyncFolder(root, "."); err != nil {
		t.Error(err)
	}
}
