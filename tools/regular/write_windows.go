package regular

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// Rename renames a file below root and replaces an existing file. Rename tries for a second, since
// renaming fails while a virus scanner or another reader has the old file open without sharing.
func Rename(root *os.Root, from, to string) error {
	for try := 0; ; try++ {
		err := root.Rename(from, to)
		busy := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !busy || try == 50 {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// SyncFolder does nothing: Windows cannot flush a directory, and NTFS journals
// names.
func SyncFolder(*os.Root, string) error { return nil }
