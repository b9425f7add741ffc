package subreaper

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/confine/restrict"
)

// TestGroupLimits checks that a group takes over the limits that it has files for.
func TestGroupLimits(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"memory.max", "memory.swap.max"} { // there is no controller for pids
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &restrict.Profile{Memory: 1 << 20, Processes: 7}
	(&cgroup{dir: dir}).limit(p)
	if p.Memory != 0 || p.Processes != 7 {
		t.Errorf("left to the process: memory %d, processes %d", p.Memory, p.Processes)
	}
	for name, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	var none *cgroup
	if none.limit(p); p.Processes != 7 {
		t.Error("no group has limited something")
	}
}

func TestCgroupFiles(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n": "/", "9:name=systemd:/a\n0::/b/c\n": "/b/c", "1:cpu:/a\n": "", "": "", "0::x": "",
	} {
		if got, ok := cgroupPath(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t", text, got, ok)
		}
	}
	const proc = "22 1 0:21 / /proc rw,nosuid - proc proc rw\n"
	for text, want := range map[string]string{
		proc + "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n":               "/sys/fs/cgroup",
		proc + "30 25 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n":                                   "",
		"31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 25 0:28 / /sys/u rw - cgroup2 none rw\n": "/sys/u",
		proc: "", "": "",
	} {
		if got := cgroupMount(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
