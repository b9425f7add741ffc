//go:build unix

package process

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// leader is the leader of a process group: a server. A process outside the group (setsid) does not
// get the group's signals.
type leader struct {
	mu   sync.Mutex
	pid  int
	over bool // the leader may have been reaped and the id reused
}

// signal signals every process of the group, unless the leader may have been reaped. last means that
// the leader is about to be reaped, so this is the last signal.
func (g *leader) signal(sig syscall.Signal, last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = syscall.Kill(-g.pid, sig)
	}
	g.over = g.over || last
}

// readNow reads the current content of a pipe without waiting for more, and ignores the deadline of
// f.
func readNow(f *os.File, b []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	// raw.Read would respect the deadline. The descriptor does not block, because only non-blocking
	// files have deadlines.
	bad := raw.Control(func(fd uintptr) {
		for {
			if n, err = syscall.Read(int(fd), b); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	return max(n, 0), errors.Join(err, bad)
}
