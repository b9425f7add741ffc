package subreaper

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestParseStat(t *testing.T) {
	for stat, want := range map[string]process{
		"12 (cat) S 7 12 12 0 -1":            {parent: 7},
		"12 (a) R 1 (b) c) Z 8 12":           {parent: 8, zombie: true},
		"12 (x\n) R 9 1) D 10 12":            {parent: 10},
		"12 (cat) X 7 12":                    {},
		"12 (cat) S":                         {},
		"":                                   {},
		"12 (cat) S x":                       {},
		"12 (" + string(make([]byte, 300)):   {},
		"4194304 (kworker/0:1) I 2 0 0 0 -1": {parent: 2},
	} {
		if got, ok := parseStat(stat); got != want || ok != (want != process{}) {
			t.Errorf("%q: %+v, %t, want %+v", stat, got, ok, want)
		}
	}
	if p, ok := processOf(os.Getpid()); !ok || p.parent != os.Getppid() || p.zombie {
		t.Errorf("of this process: %+v, %t", p, ok)
	}
}

// TestKillIf checks that a process is killed only if it still has the expected parent.
func TestKillIf(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestWaits$")
	child.Env = append(os.Environ(), "SUPERVISOR_TEST_WAITS=1")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	pid := child.Process.Pid
	if errno := killIf(pid, func(parent int) bool { return parent != os.Getpid() }); errno != syscall.ESRCH {
		t.Errorf("of another parent: %v", errno)
	}
	if errno := killIf(pid, func(parent int) bool { return parent == os.Getpid() }); errno != 0 {
		t.Errorf("of ours: %v", errno)
	}
	_ = child.Wait()
	if status := child.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", child.ProcessState)
	}
	if errno := killIf(pid, func(int) bool { return true }); errno != syscall.ESRCH {
		t.Errorf("of no process of ours: %v", errno)
	}
}

// TestWaits is the process that TestKillIf kills.
func TestWaits(*testing.T) {
	if os.Getenv("SUPERVISOR_TEST_WAITS") != "" {
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}
