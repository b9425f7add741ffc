package process

import (
	"context"
	"errors"
	"os/exec"
)

// Run starts cmd and runs cmd to the end. cmd leads a separate process group (Windows: a job
// object), which is killed as a whole if ctx ends first; then the error is the cause of ctx. So cmd
// cannot read from a terminal. Unlike with Start, processes left behind by a regular end continue:
// programs that know secrets start agents that keep the secrets unlocked. Set cmd.WaitDelay for
// agents that keep the output open.
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
		return nil // the command has succeeded; see WaitDelay
	}
	return err
}
