//go:build unix

package upstream

import (
	"os"
	"os/exec"
	"syscall"
)

// startDaemon starts a process that leaves our group with our pipes.
func startDaemon() { startAway("daemon") }

// startAway starts one that does so in that mode.
func startAway(mode string) {
	child := exec.Command(os.Args[0])
	child.Env = []string{serverEnv + "=" + mode, beaconEnv + "=" + os.Getenv(beaconEnv)}
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		panic(err)
	}
}

func terminateGroup(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGTERM)
}
