//go:build unix && !linux

package process

import (
	"log/slog"
	"os/exec"
	"syscall"
)

// sysProcAttr puts a server into a separate process group, so that signals of our terminal do not
// reach the server. These systems have no parent-death signal: if we are killed, the server sees
// only the end of the input.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// group is the process group of a server.
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

// wait reaps the leader, kills the rest of the group, and calls exited with the leader's exit
// status. wait kills the group only after reaping the leader, because these systems cannot wait for
// a process without reaping the process.
func (g *group) wait(cmd *exec.Cmd, exited func(state string)) {
	err := cmd.Wait()
	g.signal(syscall.SIGKILL, true)
	exited(exitState(cmd, err))
}

// waitExit does nothing: these systems cannot wait for a process without reaping the process.
func waitExit(int) bool { return false }
