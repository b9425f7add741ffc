//go:build unix && !linux

package process

import (
	"log/slog"
	"os/exec"
	"syscall"
)

// sysProcAttr makes the process lead a group of its own, away from the signals
// of our terminal. There is no parent-death signal here: if we are killed, a
// server notices it by the end of its input.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// group is the process group that a server leads.
type group struct{ leader }

func (g *group) start(cmd *exec.Cmd, _ *slog.Logger) (pid int, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	g.pid = cmd.Process.Pid
	return g.pid, nil
}

func (g *group) terminate() { g.signal(syscall.SIGTERM, false) }

func (g *group) kill() { g.signal(syscall.SIGKILL, false) }

// wait reaps the leader, kills what is left of the group, and tells how the
// leader exited. The kill comes right after: nothing here waits for the end of
// a process without reaping it.
func (g *group) wait(cmd *exec.Cmd, exited func(state string)) {
	err := cmd.Wait()
	g.signal(syscall.SIGKILL, true)
	exited(exitState(cmd, err))
}
