//go:build unix

package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isFull reports whether an error says that there is no room.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}
