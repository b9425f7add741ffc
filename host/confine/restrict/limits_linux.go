package restrict

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

const (
	rlimitData  = 2
	rlimitNproc = 6

	prCapbsetDrop = 24
	prCapAmbient  = 47
	clearAmbient  = 4

	capabilityVersion3 = 0x20080522
)

// limits returns all resource limits.
func (p *Profile) limits() []Limit {
	limits := p.Limits
	if p.Memory > 0 {
		limits = append(limits, Limit{rlimitData, p.Memory})
	}
	if p.Processes > 0 {
		// The kernel counts all processes and threads of the user, not only the server's.
		limits = append(limits, Limit{rlimitNproc, p.Processes + uint64(threadsOfUser())})
	}
	return limits
}

// limit sets resource limits.
func limit(limits []Limit) *failure {
	for _, l := range limits {
		if err := setLimit(l); err != nil {
			return &failure{"limit a resource (setrlimit " + strconv.Itoa(l.Resource) + ")", err}
		}
	}
	return nil
}

// setLimit sets a soft and a hard limit. A lower current limit stays.
func setLimit(l Limit) error {
	var current syscall.Rlimit
	if err := syscall.Getrlimit(l.Resource, &current); err != nil {
		return err
	}
	value := min(l.Value, current.Max)
	return syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: value, Max: value})
}

// threadsOfUser returns the number of our user's threads.
func threadsOfUser() int {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	uid, n := uint32(os.Getuid()), 0
	for _, name := range names {
		var st syscall.Stat_t
		if name[0] < '0' || name[0] > '9' || syscall.Stat("/proc/"+name, &st) != nil || st.Uid != uid {
			continue
		}
		if syscall.Stat("/proc/"+name+"/task", &st) == nil {
			n += int(st.Nlink) - 2 // a folder for each thread
		}
	}
	return n
}

// dropCapabilities gives up all capabilities. This matters for root: no file can give the
// capabilities back, because the bounding set is emptied, too.
func dropCapabilities() *failure {
	if has, known := capabilities(); known && !has {
		return nil
	}
	for c := uintptr(0); c < 64; c++ {
		_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prCapbsetDrop, c, 0)
		if errno == syscall.EINVAL {
			break // the capability does not exist
		}
		if errno != 0 && errno != syscall.EPERM { // EPERM: without CAP_SETPCAP; execve then gives none to other users than root
			return &failure{"drop capabilities (prctl)", errno}
		}
		if errno == syscall.EPERM && os.Geteuid() == 0 {
			return &failure{"drop capabilities (prctl)", errno}
		}
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prCapAmbient, clearAmbient, 0, 0, 0, 0)
	header := [2]uint32{capabilityVersion3, 0}
	var none [6]uint32
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0); errno != 0 {
		return &failure{"drop capabilities (capset)", errno}
	}
	return nil
}

// capabilities reports whether this process has any, or could get some by execve as root.
func capabilities() (has, known bool) {
	b := make([]byte, 8<<10)
	fd, err := syscall.Open("/proc/self/status", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false, false
	}
	defer syscall.Close(fd)
	n, _ := syscall.Read(fd, b)
	text := string(b[:max(n, 0)])
	for _, set := range []string{"CapInh:\t", "CapPrm:\t", "CapAmb:\t", "CapBnd:\t"} {
		_, rest, ok := strings.Cut(text, set)
		if !ok {
			return false, false
		}
		if set == "CapBnd:\t" && os.Geteuid() != 0 {
			continue
		}
		if line, _, _ := strings.Cut(rest, "\n"); strings.Trim(line, "0") != "" {
			return true, true
		}
	}
	return false, true
}
