//go:build unix

package upstream

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// group is the process group that a server leads. A process that leaves it
// (setsid) is out of our reach.
type group struct {
	mu   sync.Mutex
	pid  int
	over bool // the leader may be reaped, so its id may be another's
}

func (g *group) init(pid int) { g.pid = pid }

func (g *group) terminate() { g.signal(syscall.SIGTERM, false) }

func (g *group) kill() { g.signal(syscall.SIGKILL, false) }

// signal reaches every process of the group. That it has ended is no error.
func (g *group) signal(sig syscall.Signal, last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = syscall.Kill(-g.pid, sig)
	}
	g.over = g.over || last
}

// wait waits until the leader has exited, kills what is left of the group, and
// reaps the leader. In this order the group's id cannot be another's meanwhile.
// Where waitExit cannot tell without reaping, the kill comes right after.
func (g *group) wait(cmd *exec.Cmd) error {
	if waitExit(g.pid) {
		g.signal(syscall.SIGKILL, true)
		return cmd.Wait()
	}
	err := cmd.Wait()
	g.signal(syscall.SIGKILL, true)
	return err
}

// readNow reads what there is in a pipe, without waiting for more and whatever
// the deadline of f.
func readNow(f *os.File, b []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	// Not raw.Read, which minds the deadline. f does not block: only then does it have one.
	bad := raw.Control(func(fd uintptr) {
		for {
			if n, err = syscall.Read(int(fd), b); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	return max(n, 0), errors.Join(err, bad)
}
