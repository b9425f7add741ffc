package cli

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWaitLineNeedsEscapes checks that nothing is drawn on a terminal that cannot erase it.
func TestWaitLineNeedsEscapes(t *testing.T) {
	_, slave := openTerminal(t)
	for name, want := range map[string]bool{"xterm": true, "dumb": false} {
		t.Setenv("TERM", name)
		stdout, stderr, _ := screens(slave, slave)
		if got := stdout.wait != nil && stderr.wait != nil; got != want {
			t.Errorf("TERM=%s: a line is shown: %v", name, got)
		}
	}
}

// openTerminal makes a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}
