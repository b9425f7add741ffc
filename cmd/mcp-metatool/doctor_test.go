package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestDoctorPage runs the commands of docs/doctor.md.
func TestDoctorPage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	if err := home(); err != nil {
		t.Fatal(err)
	}
	dir, commands := t.TempDir(), 0
	for _, b := range readBlocks(t, filepath.Join("..", "..", "docs", "doctor.md")) {
		for line := range strings.Lines(b.text) {
			cmd := exec.Command("sh", "-c", line)
			cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir)
			out, err := cmd.Output()
			var failed *exec.ExitError
			if err != nil && (!errors.As(err, &failed) || failed.ExitCode() != exitFailed) || !strings.Contains(string(out), "note") {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			commands++
		}
	}
	if commands != 4 {
		t.Errorf("%d commands were found", commands)
	}
}
