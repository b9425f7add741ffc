package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestPinsDocs runs the commands of docs/pins.md with its configuration. They must work in
// that order: what is accepted first is what verify finds afterwards.
func TestPinsDocs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	startsProgram(t)
	dir := t.TempDir()
	commands, verified := 0, false
	for _, b := range readBlocks(t, filepath.Join("..", "..", "docs", "pins.md")) {
		if b.language == "toml" {
			if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(b.text) {
			if b.language != "sh" {
				continue
			}
			commands++
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "MCP_METATOOL_CONFIG=config.toml", "MCP_METATOOL_DIR="+filepath.Join(dir, "store"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			verified = verified || strings.Contains(string(out), "of harbour as pinned")
		}
	}
	if commands < 7 || !verified {
		t.Errorf("%d commands were run, verified: %v", commands, verified)
	}
	if _, err := os.Stat(filepath.Join(dir, "tools.lock")); err != nil {
		t.Error(err)
	}
}
