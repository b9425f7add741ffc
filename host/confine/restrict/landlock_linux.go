package restrict

import (
	"encoding/binary"
	"syscall"
	"unsafe"
)

const (
	sysLandlockCreateRuleset = 444
	sysLandlockAddRule       = 445
	sysLandlockRestrictSelf  = 446

	rulePathBeneath = 1
	ruleNetPort     = 2

	sysOpenat2        = 437
	oPath             = 0x200000
	atFDCWD           = -0x64
	resolveNoSymlinks = 0x04

	// OfFiles are the rights to a file other than a folder: execute, write, read, truncate, ioctl
	// of a device.
	OfFiles = 1<<0 | 1<<1 | 1<<2 | 1<<14 | 1<<15
)

// landlock restricts files, ports and scopes (landlock(7)).
func (p *Profile) landlock() *failure {
	if p.HandledFiles|p.HandledPorts|p.Scoped == 0 {
		return nil
	}
	attr := [3]uint64{p.HandledFiles, p.HandledPorts, p.Scoped}
	size := unsafe.Sizeof(attr)
	for i := 2; i > 0 && attr[i] == 0; i-- { // older kernels have a shorter structure
		size -= 8
	}
	rules, _, errno := syscall.RawSyscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return &failure{"make rules for files and ports (landlock)", errno}
	}
	for _, f := range p.Files {
		if err := f.grant(rules); err != nil {
			return &failure{"allow " + f.Path + " (landlock)", err}
		}
	}
	for _, port := range p.Ports {
		attr := [2]uint64{port.Access, uint64(port.Number)}
		if _, _, errno := syscall.RawSyscall6(sysLandlockAddRule, rules, ruleNetPort, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
			return &failure{"allow a port (landlock)", errno}
		}
	}
	if _, _, errno := syscall.RawSyscall(sysLandlockRestrictSelf, rules, 0, 0); errno != 0 {
		return &failure{"restrict itself (landlock)", errno}
	}
	return nil
}

// grant adds the rights to a set of rules.
func (f File) grant(rules uintptr) error {
	fd, err := open(f.Path)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	access := f.Access
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		access &= OfFiles
	}
	var attr [12]byte // struct landlock_path_beneath_attr is packed
	binary.NativeEndian.PutUint64(attr[:], access)
	binary.NativeEndian.PutUint32(attr[8:], uint32(fd))
	if _, _, errno := syscall.RawSyscall6(sysLandlockAddRule, rules, rulePathBeneath, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// open opens a path that must not contain a symbolic link. Every kernel with Landlock has openat2.
func open(path string) (int, error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	how := [3]uint64{oPath | syscall.O_CLOEXEC, 0, resolveNoSymlinks}
	if path == "/proc/self" { // a link to a folder of this process, and so of the server
		how[2] = 0
	}
	dir := atFDCWD
	fd, _, errno := syscall.RawSyscall6(sysOpenat2, uintptr(dir), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
