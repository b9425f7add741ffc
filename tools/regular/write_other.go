//go:build !windows

package regular

import (
	"errors"
	"os"
	"syscall"
)

// Rename renames a file below root and replaces an existing file. The names are durable
// after [SyncFolder].
func Rename(root *os.Root, from, to string) error { return root.Rename(from, to) }

// SyncFolder makes new, changed and removed names in a folder below root durable. A file system
// without syncing of folders is no error: its folders are as durable as possible.
func SyncFolder(root *os.Root, folder string) error {
	d, err := root.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
