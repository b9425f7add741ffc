//go:build unix

package streamable

import (
	"math"
	"syscall"
)

// openFiles returns how many files this process may open; 0 if that is not known. At its start
// Go has raised the limit as far as it may.
func openFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int(min(uint64(l.Cur), math.MaxInt32))
}
