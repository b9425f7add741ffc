//go:build unix

package process

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

func fifo(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRunEndsTheGroup checks that a command that is cancelled leaves no child behind.
func TestRunEndsTheGroup(t *testing.T) {
	path := fifo(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	over := make(chan error)
	go func() {
		over <- Run(ctx, exec.Command("/bin/sh", "-c", `exec 3>"$0"; sleep 1000 & echo started >&3; wait`, path))
	}()
	alive, err := os.Open(path) // reading ends when no process has the file open
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	in := bufio.NewReader(alive)
	if line, err := in.ReadString('\n'); line != "started\n" {
		t.Errorf("got %q, %v", line, err)
	}
	cancel(gone)
	if err := <-over; !errors.Is(err, gone) {
		t.Error(err)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) != 0 {
		t.Errorf("got %q, %v", rest, err)
	}
	if err := Run(ctx, exec.Command("/no/such/command")); !errors.Is(err, gone) {
		t.Errorf("it was started after the end: %v", err)
	}
}

// TestRunLeavesAgents checks that processes left behind by a command continue, even if they keep
// the command's output open.
func TestRunLeavesAgents(t *testing.T) {
	in, out := fifo(t), fifo(t)
	cmd := exec.Command("/bin/sh", "-c", `(read line <"$0"; echo "$line" >"$1") & echo done`, in, out)
	cmd.Stdout, cmd.WaitDelay = io.MultiWriter(io.Discard), testenv.Quiet(time.Nanosecond)
	if err := Run(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := os.WriteFile(in, []byte("still here\n"), 0); err != nil {
			t.Error(err)
		}
	}()
	if got, err := os.ReadFile(out); string(got) != "still here\n" {
		t.Errorf("got %q, %v", got, err)
	}
	var failed *exec.ExitError
	if err := Run(t.Context(), exec.Command("/bin/sh", "-c", "exit 3")); !errors.As(err, &failed) || failed.ExitCode() != 3 {
		t.Error(err)
	}
}
