package tools

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// rename tries for a second: a virus scanner or another reader that has the
// old file open without sharing makes it fail for a moment.
func rename(root *os.Root, from, to string) error {
	for try := 0; ; try++ {
		err := root.Rename(from, to)
		busy := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !busy || try == 50 {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// syncDir does nothing: Windows cannot flush a directory, NTFS journals names.
func syncDir(*os.Root) error { return nil }
