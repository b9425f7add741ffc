package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/servers"
)

// TestDoctorPage runs the commands of docs/doctor.md.
func TestDoctorPage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	startsProgram(t)
	dir, commands := t.TempDir(), 0
	for _, b := range readBlocks(t, filepath.Join("..", "..", "docs", "doctor.md")) {
		for line := range strings.Lines(b.text) {
			cmd := exec.Command("sh", "-c", line)
			cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir)
			out, err := cmd.Output()
			var failed *exec.ExitError
			if err != nil && (!errors.As(err, &failed) || failed.ExitCode() != cli.ExitFailed && failed.ExitCode() != servers.ExitWarned) || !strings.Contains(string(out), "note") {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			commands++
		}
	}
	if commands != 4 {
		t.Errorf("%d commands were found", commands)
	}
}
