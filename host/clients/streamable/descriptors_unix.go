//go:build unix

package streamable

import (
	"math"
	"syscall"
)

// openFiles returns the limit on open files of this process; 0 if unknown. At the start of the
// process Go has raised the limit as far as permitted.
func openFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int(min(uint64(l.Cur), math.MaxInt32))
}
