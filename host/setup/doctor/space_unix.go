//go:build linux || darwin

package doctor

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes this user can still write to the disk of a folder.
func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
