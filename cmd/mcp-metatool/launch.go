package main

import (
	"os/exec"
	"runtime"
)

// launch opens an address or a file with the program that the user has chosen for it. It
// reports whether a program was started for that.
func launch(target string) bool {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	browser := exec.Command(command[0], append(command[1:], target)...)
	if browser.Start() != nil {
		return false
	}
	_ = browser.Process.Release() // we do not wait for it
	return true
}
