//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

func runAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// runGroup is the process group of a command; see Run.
type runGroup struct{ leader }

func (g *runGroup) join(pid int) { g.pid = pid }

func (g *runGroup) kill() { g.signal(syscall.SIGKILL, false) }

// wait waits for the command. The group gets no signal afterwards, because the id may have been
// reused.
func (g *runGroup) wait(cmd *exec.Cmd) error {
	const none = syscall.Signal(0)
	if waitExit(g.pid) {
		g.signal(none, true)
	}
	err := cmd.Wait()
	g.signal(none, true)
	return err
}
