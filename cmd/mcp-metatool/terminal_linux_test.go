package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

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

// TestLostTerminal closes the terminal of a server. Over stdio its input ends; over
// HTTP it only gets SIGHUP.
func TestLostTerminal(t *testing.T) {
	startsProgram(t)
	for _, args := range [][]string{{"serve"}, {"serve", "--http", "127.0.0.1:0"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			master, slave := openTerminal(t)
			log := textLog{more: make(chan struct{}, 1)}
			cmd := exec.Command("mcp-metatool", args...)
			cmd.Stdin, cmd.Stderr = slave, &log
			cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+t.TempDir())
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			hungUp := false
			defer func() {
				if !hungUp {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				}
			}()
			ready := "serving MCP on"
			if len(args) == 1 {
				ready = "This is an MCP server"
			}
			if err := log.await(ready); err != nil {
				t.Fatal(err)
			}
			if len(args) > 1 { // while the terminal is open, SIGHUP asks for a reload
				if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				if err := log.await("why=SIGHUP"); err != nil {
					t.Fatal(err)
				}
			}
			hungUp = true
			slave.Close()
			master.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, log.text)
			}
		})
	}
}
