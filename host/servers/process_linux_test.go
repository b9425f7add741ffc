package servers

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// scattered waits until a server in mode "scatters" and its processes have started: a
// child in its group, one that has left the group, and one whose parent has ended.
func scattered(b *processMonitor) (all []*bufio.Reader) {
	b.t.Helper()
	var modes []string
	for range 4 {
		mode, _, r := b.next()
		modes, all = append(modes, mode), append(all, r)
	}
	slices.Sort(modes)
	if got := strings.Join(modes, " "); got != "daemon daemon grandchild scatters" {
		b.t.Fatalf("started: %s", got)
	}
	return all
}

// TestNoDescendantIsLeft checks that all descendants of a server end with it, however it
// ends.
func TestNoDescendantIsLeft(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, f *fixture){
		"close": func(t *testing.T, f *fixture) {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"killed server": func(t *testing.T, f *fixture) { signalTo(t, f.Status().Pid, syscall.SIGKILL) },
		"crash":         func(t *testing.T, f *fixture) { _, _ = f.Call(t.Context(), toolCall("crash")) },
	} {
		for _, kind := range []string{how, how + ", confined"} {
			t.Run(kind, func(t *testing.T) {
				b := newProcessMonitor(t)
				s := spec("scatters", b.env())
				if kind != how {
					s.Sandbox = confinedTo(t, b)
				}
				f := launch(t, s)
				all := scattered(b)
				<-f.Started()
				end(t, f)
				for _, r := range all {
					awaitEnd(r)
				}
			})
		}
	}
}

// confinedTo returns a sandbox in which processes can report to a monitor.
func confinedTo(t *testing.T, b *processMonitor) *confine.Settings {
	t.Helper()
	port := b.l.Addr().(*net.TCPAddr).Port
	s := &confine.Settings{Network: confine.NetworkPorts, Ports: []uint16{uint16(port)}}
	if lacks := confine.Lacks(s); len(lacks) > 0 {
		testenv.Lacks(t, "confinement", "%s: %s", confine.Level(), strings.Join(lacks, "; "))
	}
	return s
}

// TestKilledParentLeavesNoProcess checks that all descendants of a server end when
// the server's parent is killed.
func TestKilledParentLeavesNoProcess(t *testing.T) {
	t.Parallel()
	b := newProcessMonitor(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), serverEnv+"=parent of scatters", b.env())
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var all []*bufio.Reader
	for range 5 {
		_, _, r := b.next()
		all = append(all, r)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for _, r := range all {
		awaitEnd(r)
	}
}

// TestServerSignalsSupervisor checks that signals from a server, which has the same rights,
// have no effect on its supervisor, except that SIGKILL ends the server too.
func TestServerSignalsSupervisor(t *testing.T) {
	t.Parallel()
	t.Run("signals", func(t *testing.T) {
		f := launch(t, spec("ok"))
		<-f.Started()
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
			signalTo(t, parentOf(t, f.Status().Pid), sig)
		}
		if got := f.call(t, "env"); got == "" {
			t.Error("it does not answer")
		}
	})
	t.Run("stopped", func(t *testing.T) {
		b := newProcessMonitor(t)
		f := launch(t, spec("scatters", b.env()))
		all := scattered(b)
		<-f.Started()
		signalTo(t, parentOf(t, f.Status().Pid), syscall.SIGSTOP)
		f.timings.grace = time.Millisecond
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for _, r := range all {
			awaitEnd(r)
		}
	})
	t.Run("killed", func(t *testing.T) {
		b := newProcessMonitor(t)
		f := launch(t, spec("family", b.env()))
		_, _, r1 := b.next()
		_, _, r2 := b.next()
		<-f.Started()
		signalTo(t, parentOf(t, f.Status().Pid), syscall.SIGKILL)
		<-f.done
		awaitEnd(r1)
		awaitEnd(r2)
		if s := f.Status(); s.State != Failed || !strings.Contains(s.Err, "its supervisor was killed") {
			t.Errorf("status %+v", s)
		}
	})
}

// TestChainOfProcesses checks that a process is killed that keeps starting a copy of
// itself and exiting, so that it has gone whenever it is found.
func TestChainOfProcesses(t *testing.T) {
	t.Parallel()
	b := newProcessMonitor(t)
	f := launch(t, spec("starts a self-replacer", b.env()))
	for range 4 { // the server, and three of the copies
		b.next()
	}
	<-f.Started()
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(files) == 0 {
		t.Fatalf("no processes: %v", err)
	}
	for _, file := range files {
		if environ, _ := os.ReadFile(file); strings.Contains(string(environ), b.env()) {
			t.Errorf("%s is left", file)
		}
	}
}

// TestServerDoesNotStart checks that the error of a server that the supervisor cannot
// start is the same as without a supervisor.
func TestServerDoesNotStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(path, []byte("\x7fELF of another world"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := launch(t, Spec{Name: "x", Command: path, Restart: RestartNever})
	<-f.Started()
	if s := f.Status(); s.State != Failed || !strings.HasSuffix(s.Err, "did not start: exec format error") {
		t.Errorf("status %+v", s)
	}
}

// parentOf returns the process id of a server's supervisor.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var state string
	var parent int
	if _, err := fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent); err != nil || parent == os.Getpid() {
		t.Fatalf("parent %d of %s, %v", parent, stat, err)
	}
	return parent
}

func signalTo(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}
