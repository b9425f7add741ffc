package budget

import (
	"testing"
	"testing/fstest"
)

const (
	meminfo = "MemTotal:       16384000 kB\nMemFree:         1000 kB\n"
	v2Mount = "25 20 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
)

func TestLinuxMemory(t *testing.T) {
	const all = 16384000 << 10
	for name, test := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"nothing is known":  {nil, 0},
		"machine":           {map[string]string{"proc/meminfo": meminfo}, all},
		"meminfo is broken": {map[string]string{"proc/meminfo": "MemTotal: lots kB\n"}, 0},
		"version 2, no limit": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/memory.max": "max\n",
		}, all},
		"version 2, container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/memory.max": "2147483648\n",
		}, 2 << 30},
		"version 2, a group above has less": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice/app\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/user.slice/app/memory.max": "max\n", "sys/fs/cgroup/user.slice/memory.max": "1073741824\n",
		}, 1 << 30},
		"version 1, container": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu:/x\n3:hugetlb,memory:/docker/abc\n0::/\n",
			"proc/self/mountinfo": "40 30 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n" +
				"41 30 0:31 / /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
		}, 512 << 20},
		"version 1, group of the host": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "3:memory:/jobs/7\n",
			"proc/self/mountinfo":                               "40 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes": "268435456\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":        "9223372036854771712\n",
		}, 256 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for file, text := range test.files {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := linuxMemory(root); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestDefaultTotal(t *testing.T) {
	if n := DefaultTotal(); n < leastTotal || uint64(n) > max(leastTotal, Memory()/2) {
		t.Errorf("default %d of %d", n, Memory())
	}
}
