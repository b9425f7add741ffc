package budget

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

const (
	// unknownMemory is assumed if the memory of the machine cannot be determined.
	unknownMemory = 4 << 30
	// leastTotal is the smallest default, enough for a proxy with a few scripts.
	leastTotal = 64 << 20
)

// DefaultTotal returns half of Memory, but at least 64 MiB.
func DefaultTotal() int64 {
	return max(leastTotal, int64(min(Memory(), math.MaxInt64))/2)
}

// Memory returns the memory available to this process, in bytes: the memory of the machine, or the
// limit of the container if smaller.
func Memory() uint64 {
	if n := memory(); n > 0 {
		return n
	}
	return unknownMemory
}

// linuxMemory returns the minimum of the memory in /proc/meminfo and the limits of the
// control groups of this process; 0 if none is known. root is the file system "/".
func linuxMemory(root fs.FS) uint64 {
	least := uint64(math.MaxUint64)
	for _, n := range append(cgroupLimits(root), memTotal(root)) {
		if n > 0 {
			least = min(least, n)
		}
	}
	if least == math.MaxUint64 {
		return 0
	}
	return least
}

// memTotal returns MemTotal of /proc/meminfo in bytes; see proc_meminfo(5).
func memTotal(root fs.FS) uint64 {
	data, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 54)
		if err != nil {
			return 0
		}
		return kib << 10
	}
	return 0
}

// cgroupMount is a mounted hierarchy of control groups.
type cgroupMount struct {
	root, point string // the group at the mount point, and the mount point
	file        string // name of the file with the limit of a group
}

// cgroupLimits returns the limits of this process's groups and of their ancestors, all of which
// apply. See cgroups(7), proc_pid_cgroup(5).
func cgroupLimits(root fs.FS) []uint64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	unified, memory := cgroupMounts(root)
	var limits []uint64
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy:controllers:path
		if len(fields) < 3 {
			continue
		}
		switch {
		case fields[1] == "":
			limits = append(limits, unified.limits(root, fields[2])...)
		case hasWord(fields[1], "memory"):
			limits = append(limits, memory.limits(root, fields[2])...)
		}
	}
	return limits
}

// cgroupMounts finds the version 2 hierarchy and the version 1 hierarchy with memory limits; see
// proc_pid_mountinfo(5).
func cgroupMounts(root fs.FS) (unified, memory cgroupMount) {
	data, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return unified, memory
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		mount, system, _ := strings.Cut(lines.Text(), " - ")
		of, kind := strings.Fields(mount), strings.Fields(system)
		if len(of) < 5 || len(kind) < 3 {
			continue
		}
		switch {
		case kind[0] == "cgroup2":
			unified = cgroupMount{of[3], of[4], "memory.max"}
		case kind[0] == "cgroup" && hasWord(kind[2], "memory"):
			memory = cgroupMount{of[3], of[4], "memory.limit_in_bytes"}
		}
	}
	return unified, memory
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// limits returns the limits of a group and the visible ancestors.
func (m cgroupMount) limits(root fs.FS, group string) []uint64 {
	if m.point == "" {
		return nil
	}
	below, ok := strings.CutPrefix(group, m.root)
	if m.root != "/" && !ok {
		below = "" // in another namespace: only the mounted group is visible
	}
	var limits []uint64
	for below = path.Clean("/" + below); ; below = path.Dir(below) {
		name := strings.TrimPrefix(path.Join(m.point, below, m.file), "/")
		if data, err := fs.ReadFile(root, name); err == nil {
			// "max", or a number larger than any memory, means no limit.
			if n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil {
				limits = append(limits, n)
			}
		}
		if below == "/" {
			return limits
		}
	}
}

// LimitHeap sets the memory limit of the garbage collector, for the whole process, so that the
// host's own heap fits next to the memory of scripts, which is outside the heap. If the operator
// has set GOMEMLIMIT, LimitHeap does nothing.
func (b *Budget) LimitHeap() {
	if b == nil || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(heapLimit(int64(min(Memory(), 1<<62)), b.mostOfRuns()))
}

// heapLimit returns the memory left by runs, less a tenth for everything else, but at least a
// quarter.
func heapLimit(all, runs int64) int64 { return max(all-all/10-runs, all/4) }

const (
	// burst is the number of bytes of messages from which an early return of memory to the system
	// is worthwhile; idleAfter is the wait after the last of these messages.
	burst     = 64 << 20
	idleAfter = 5 * time.Second
)

// countBurst counts a message of the given size. After a burst of messages, memory is
// returned to the system. The caller holds b.mu.
func (b *Budget) countBurst(bytes int64) {
	if b.burst += bytes; b.burst < burst {
		return
	}
	if b.idle == nil {
		b.idle = time.AfterFunc(idleAfter, b.freeMemory)
	} else {
		b.idle.Reset(idleAfter)
	}
}

// freeMemory returns memory to the system.
func (b *Budget) freeMemory() {
	b.mu.Lock()
	b.burst = 0
	if b.attached > 0 { // some messages are still in use: try again later
		b.burst = burst
		b.idle.Reset(idleAfter)
	}
	b.mu.Unlock()
	debug.FreeOSMemory()
}
