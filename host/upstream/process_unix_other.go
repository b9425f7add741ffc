//go:build unix && !linux

package upstream

import "syscall"

// sysProcAttr makes the process lead a group of its own, away from the signals
// of our terminal. There is no parent-death signal here: if we are killed, a
// server learns it from the end of its input.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// waitExit cannot wait here without reaping.
func waitExit(int) bool { return false }
