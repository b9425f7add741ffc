package process

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNoSupervisor checks that a process is started even if no supervisor can be started, and that
// the process's group is ended with the process.
func TestNoSupervisor(t *testing.T) {
	other, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	defer func(path string) { ownBinary = path }(ownBinary)
	for _, ownBinary = range []string{"/nowhere/at/all", other} {
		fifo := filepath.Join(t.TempDir(), "alive")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		p, err := Start(Command{Name: "/bin/sh", Args: []string{"-c", `exec 3>"$0"; sleep 1000 & echo started >&3; wait`, fifo}},
			Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		alive, err := os.Open(fifo) // reading ends when no process has the file open
		if err != nil {
			t.Fatal(err)
		}
		if line, err := io.ReadAll(io.LimitReader(alive, int64(len("started\n")))); err != nil || string(line) != "started\n" {
			t.Errorf("got %q, %v", line, err)
		}
		if !strings.Contains(log.String(), "no supervisor could be started") {
			t.Errorf("log %s", log.String())
		}
		p.Stdin().Close()
		p.Stop(time.Millisecond, nil)
		if rest, err := io.ReadAll(alive); err != nil || len(rest) != 0 {
			t.Errorf("got %q, %v", rest, err)
		}
		alive.Close()
		p.Stdout().Close()
		p.Release()
	}
}
