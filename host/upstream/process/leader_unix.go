//go:build unix

package process

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// leader is a server that leads a process group. A process that leaves the group
// (setsid) cannot be reached through it.
type leader struct {
	mu   sync.Mutex
	pid  int
	over bool // the leader may have been reaped and its id reused
}

// signal signals every process of the group, unless that has ended. last says
// that the leader is about to be reaped.
func (g *leader) signal(sig syscall.Signal, last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = syscall.Kill(-g.pid, sig)
	}
	g.over = g.over || last
}

// readNow reads what there is in a pipe, without waiting for more and whatever
// the deadline of f.
func readNow(f *os.File, b []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	// Not raw.Read, which respects the deadline. f does not block: only then does it have one.
	bad := raw.Control(func(fd uintptr) {
		for {
			if n, err = syscall.Read(int(fd), b); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	return max(n, 0), errors.Join(err, bad)
}
