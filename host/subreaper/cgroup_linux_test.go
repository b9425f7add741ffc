package subreaper

import "testing"

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
