//go:build unix && !linux

package main

import "syscall"

// child does nothing here: the end of main ends all processes.
func child() *syscall.SysProcAttr { return nil }
