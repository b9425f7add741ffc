package upstream

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr makes the process lead a group of its own, away from the signals
// of our terminal, and die with us even if we are killed. The signal is
// SIGKILL, since nobody would be left to follow up on a milder one.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitExit waits until our child pid has exited and leaves it to be reaped.
func waitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
