package process

import (
	"os/exec"
	"syscall"
)

func runAttr() *syscall.SysProcAttr { return sysProcAttr() }

// runGroup is the job object of a command; see Run.
type runGroup struct{ group }

func (g *runGroup) join(pid int) { g.assign(pid, 0) }

func (g *runGroup) wait(cmd *exec.Cmd) error {
	defer g.close()
	return cmd.Wait()
}
