//go:build unix

package servers

import (
	"os"
	"os/exec"
	"syscall"
)

// startDaemon starts a process in mode "daemon" that leaves our process group and has
// our pipes.
func startDaemon() { startDetached("daemon") }

// startDetached is startDaemon for any mode.
func startDetached(mode string) {
	child := exec.Command(os.Args[0])
	child.Env = []string{serverEnv + "=" + mode, monitorEnv + "=" + os.Getenv(monitorEnv)}
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		panic(err)
	}
}

func terminateGroup(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGTERM)
}
