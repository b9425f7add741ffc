//go:build !windows

package regular

import "os"

// Rename renames a file below root and replaces an existing file. The names are durable
// after [SyncFolder].
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
