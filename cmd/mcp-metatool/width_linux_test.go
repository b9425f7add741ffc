package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// TestWidth checks that tables and help fit terminals of several widths, in colour.
func TestWidth(t *testing.T) {
	startsProgram(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	tool := `{"version":"1.0","name":"departures","description":"` + strings.Repeat("Lists ships that leave. ", 10) + `","inputSchema":{"type":"object"},"code":"return 1"}`
	if err := os.WriteFile(filepath.Join(dir, "tools", "departures.json"), []byte(tool), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{60, 80, 120} {
		for _, args := range []string{"doctor", "tools list", "tools show departures", "servers --help", "--help"} {
			screen := atWidth(t, dir, width, strings.Fields(args))
			if !strings.Contains(screen, "\x1b[1m") {
				t.Errorf("%s has no colours at %d columns: %q", args, width, screen)
			}
			screen = strings.ReplaceAll(screen, "\r\x1b[K", "\n") // what the command waits for, if it takes long
			for line := range strings.SplitSeq(ownEscapes.Replace(screen), "\n") {
				if n := display.Width(strings.TrimRight(line, "\r")); n > width && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("%s at %d columns has a line of %d: %q", args, width, n, line)
				}
			}
		}
	}
}

// atWidth runs the program and returns what it writes to a terminal with that many columns.
func atWidth(t *testing.T, dir string, width int, args []string) string {
	t.Helper()
	master, slave := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: 50}); err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, master) // until the program has ended
		read <- b.Bytes()
	}()
	cmd := exec.Command("mcp-metatool", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, slave, slave
	cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir, "TERM=xterm", "NO_COLOR=")
	err := cmd.Run()
	slave.Close()
	screen := <-read
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, screen)
	}
	return string(screen)
}
