package subreaper

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

func prctlName(name *[16]byte) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(name)), 0)
}

// System calls newer than package syscall; the numbers are the same on all systems of Go.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// process is a process according to /proc.
type process struct {
	parent int
	zombie bool // the process has ended, or at least the first thread has
}

// killDescendants sends SIGKILL to all descendants of this process. killDescendants returns how
// many of them had not ended, and how many of these may not be signalled.
func killDescendants() (alive, denied int) {
	all := processes()
	self := os.Getpid()
	ours := map[int]bool{self: true}
	for again := true; again; { // at most once for each level of the tree
		again = false
		for pid, p := range all {
			if ours[p.parent] && !ours[pid] {
				ours[pid], again = true, true
			}
		}
	}
	delete(all, self)
	for pid, p := range all {
		if !ours[pid] {
			continue
		}
		errno := killIf(pid, func(parent int) bool { return ours[parent] })
		if p.zombie || errno == syscall.ESRCH {
			continue
		}
		alive++
		if errno == syscall.EPERM {
			denied++
		}
	}
	return alive, denied
}

// processes returns all processes of the system by id.
func processes() map[int]process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(map[int]process, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := processOf(pid); ok {
				all[pid] = p
			}
		}
	}
	return all
}

// processOf reads /proc/PID/stat (proc(5)).
func processOf(pid int) (process, bool) {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return process{}, false
	}
	defer syscall.Close(fd)
	var b [512]byte // id, name (64 bytes at most), state, parent, ...
	n, err := syscall.Read(fd, b[:])
	if err != nil || n <= 0 {
		return process{}, false
	}
	return parseStat(string(b[:n]))
}

// parseStat parses the state and the parent. They follow the name, which can contain
// any character, even parentheses.
func parseStat(stat string) (process, bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || fields[0] == "X" {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return process{parent: parent, zombie: fields[0] == "Z"}, err == nil
}

// killIf kills a process if ours returns true for the process's parent: the id may belong to
// another process by now. Without pidfds (before Linux 5.3, or under an old seccomp filter) the id
// could still be reused between the check and the signal.
func killIf(pid int, ours func(parent int) bool) syscall.Errno {
	fd, _, failed := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if failed == 0 {
		defer syscall.Close(int(fd))
	}
	if p, ok := processOf(pid); !ok || !ours(p.parent) {
		return syscall.ESRCH
	}
	if failed == 0 {
		_, _, failed = syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
		if failed == 0 || failed == syscall.ESRCH {
			return failed
		}
	}
	errno, _ := syscall.Kill(pid, syscall.SIGKILL).(syscall.Errno)
	return errno
}
