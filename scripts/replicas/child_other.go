//go:build unix && !linux

package main

import "syscall"

// child leaves it to the end of main that no process stays.
func child() *syscall.SysProcAttr { return nil }
