package servers

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// unified is where systems with both versions of control groups mount version 2.
const unified = "/sys/fs/cgroup/unified"

// TestServerHasCgroup checks that a server gets a control group of its own if our own group
// was delegated to us, and that the group is removed when the server ends. The test
// needs a superuser and control groups.
func TestServerHasCgroup(t *testing.T) { // not parallel: it moves this process
	top := unified
	if _, err := os.Stat(top); err != nil {
		top = filepath.Dir(unified)
	}
	ours := filepath.Join(top, "mcp-metatool-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(ours, 0o755); err != nil {
		testenv.Lacks(t, "cgroups", "no control group can be made: %v", err)
	}
	move := func(to string) error {
		return os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600)
	}
	t.Cleanup(func() {
		_ = move(top)
		_ = os.Remove(ours)
	})
	if err := syscall.Setxattr(ours, "trusted.delegate", []byte("1"), 0); err != nil {
		testenv.Lacks(t, "cgroups", "it cannot be marked: %v", err)
	}
	if err := move(ours); err != nil {
		testenv.Lacks(t, "cgroups", "it cannot be entered: %v", err)
	}
	groups := func() []string {
		found, err := filepath.Glob(filepath.Join(ours, "mcp-metatool-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	b := newProcessMonitor(t)
	f := launch(t, spec("scatters", b.env()))
	all := scattered(b)
	<-f.Started()
	found := groups()
	if len(found) != 1 {
		t.Fatalf("groups: %v", found)
	}
	if procs, err := os.ReadFile(filepath.Join(found[0], "cgroup.procs")); err != nil || bytes.Count(procs, []byte("\n")) != len(all) {
		t.Errorf("in the group: %q, %v", procs, err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, r := range all {
		awaitEnd(r)
	}
	if found := groups(); len(found) != 0 {
		t.Errorf("groups are left: %v", found)
	}
}
