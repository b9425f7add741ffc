package process

import (
	"context"
	"errors"
	"os/exec"
)

// Run runs cmd, which has not been started, to its end. It leads a process group of its
// own (Windows: a job object), which is killed as a whole if ctx ends first; the error is
// the cause of ctx then. So it cannot read from a terminal. What it leaves behind when it
// ends by itself goes on, unlike with Start: programs that know secrets start agents that
// keep them unlocked. Set cmd.WaitDelay for those that keep its output open.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cmd.SysProcAttr = runAttr()
	if err := cmd.Start(); err != nil {
		return err
	}
	var g runGroup
	g.join(cmd.Process.Pid)
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(killed); g.kill() })
	err := g.wait(cmd)
	if !stop() {
		<-killed
		return context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // it has succeeded; see WaitDelay
	}
	return err
}
