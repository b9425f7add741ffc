//go:build !windows

package regular

import "os"

// Rename renames a file below root. What has the new name is replaced. The
// names are durable after [SyncFolder].
func Rename(root *os.Root, from, to string) error { return root.Rename(from, to) }

// SyncFolder makes new, changed and removed names in a folder below root
// durable.
func SyncFolder(root *os.Root, folder string) error {
	d, err := root.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
