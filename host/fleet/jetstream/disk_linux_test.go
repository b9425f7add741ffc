package jetstream

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// smallDisk is a file system of its own.
type smallDisk struct{ dir string }

func newSmallDisk(t *testing.T, size string) *smallDisk {
	t.Helper()
	d := &smallDisk{t.TempDir()}
	if err := unix.Mount("none", d.dir, "tmpfs", 0, "size="+size); err != nil {
		testenv.Lacks(t, "mounts", "no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(d.dir, unix.MNT_DETACH) })
	return d
}

func (d *smallDisk) resize(t *testing.T, size string) {
	t.Helper()
	if err := unix.Mount("none", d.dir, "tmpfs", unix.MS_REMOUNT, "size="+size); err != nil {
		t.Fatal(err)
	}
}
