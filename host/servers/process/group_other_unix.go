//go:build unix && !linux

package process

import (
	"log/slog"
	"os/exec"
	"syscall"
)

// sysProcAttr puts a server into a process group of its own, so that signals of our
// terminal do not reach it. These systems have no parent-death signal: if we are
// killed, the server sees only the end of its input.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// group is the process group that a server leads.
type group struct{ leader }

func (g *group) start(cmd *exec.Cmd, _ plan, _ *slog.Logger) (pid int, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	g.pid = cmd.Process.Pid
	return g.pid, nil
}

func (g *group) terminate() { g.signal(syscall.SIGTERM, false) }

func (g *group) kill() { g.signal(syscall.SIGKILL, false) }

// wait reaps the leader, kills what is left of the group, and calls exited with how
// the leader exited. It kills the group only after reaping the leader, because these
// systems have no way to wait for a process without reaping it.
func (g *group) wait(cmd *exec.Cmd, exited func(state string)) {
	err := cmd.Wait()
	g.signal(syscall.SIGKILL, true)
	exited(exitState(cmd, err))
}

// waitExit does nothing: these systems have no way to wait for a process without reaping it.
func waitExit(int) bool { return false }
