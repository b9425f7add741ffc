package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const ptraceGetSyscallInfo = 0x420e // since Linux 5.3

// syscallInfoOf asks which system call a stopped thread makes.
func syscallInfoOf(tid int) (info syscallInfo, ok bool) {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, ptraceGetSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	return info, errno == 0
}

func procPath(tid int, name string) string { return "/proc/" + strconv.Itoa(tid) + "/" + name }

// memory reads up to n bytes of a thread's memory. memory stops at the end of a page without a
// readable next page.
func memory(tid int, address uint64, n int) []byte {
	const page = 4096
	var all []byte
	for n > 0 && address != 0 {
		size := min(n, page-int(address%page))
		b := make([]byte, size)
		got, err := unix.ProcessVMReadv(tid, []unix.Iovec{{Base: &b[0], Len: uint64(size)}},
			[]unix.RemoteIovec{{Base: uintptr(address), Len: size}}, 0)
		if err != nil || got == 0 {
			break
		}
		all = append(all, b[:got]...)
		if bytes.IndexByte(b[:got], 0) >= 0 && n == unix.PathMax {
			break // a string ends here
		}
		n -= got
		address += uint64(got)
	}
	return all
}

// text reads a string.
func text(tid int, address uint64) string {
	s, _, _ := strings.Cut(string(memory(tid, address, unix.PathMax)), "\x00")
	return s
}

// absolute returns the path for a thread's descriptor of a folder and a name.
func absolute(tid int, dir uint64, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	from := procPath(tid, "cwd")
	if fd := int32(dir); fd != unix.AT_FDCWD {
		from = procPath(tid, "fd/"+strconv.Itoa(int(fd)))
	}
	folder, err := os.Readlink(from)
	if err != nil {
		return name
	}
	return filepath.Join(folder, name)
}

// descriptor returns a thread's open file: a path, or a name in the form socket:[12].
func descriptor(tid int, fd int64) string {
	name, _ := os.Readlink(procPath(tid, "fd/"+strconv.FormatInt(fd, 10)))
	return name
}

// opened returns the path of a thread's open file.
func opened(tid int, fd int64) string {
	path := descriptor(tid, fd)
	if !filepath.IsAbs(path) {
		return "" // a pipe, a socket
	}
	return strings.TrimSuffix(path, " (deleted)")
}

// address reads a socket address; a family without ports has port 0.
func address(tid int, at, size uint64) (family int, text string) {
	b := memory(tid, at, int(min(size, 128)))
	if len(b) < 2 {
		return 0, ""
	}
	family = int(binary.NativeEndian.Uint16(b))
	switch {
	case family == unix.AF_INET && len(b) >= 8:
		ip, _ := netip.AddrFromSlice(b[4:8])
		return family, netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[2:])).String()
	case family == unix.AF_INET6 && len(b) >= 24:
		ip, _ := netip.AddrFromSlice(b[8:24])
		return family, netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(b[2:])).String()
	case family == unix.AF_UNIX && len(b) > 2 && b[2] == 0:
		return family, "@" + strings.TrimRight(string(b[3:]), "\x00")
	case family == unix.AF_UNIX:
		path, _, _ := strings.Cut(string(b[2:]), "\x00")
		return family, absolute(tid, uint64(0xFFFFFF9C), path)
	}
	return family, familyName(family)
}

var families = map[int]string{
	unix.AF_UNIX: "unix", unix.AF_INET: "inet", unix.AF_INET6: "inet6", unix.AF_NETLINK: "netlink", unix.AF_PACKET: "packet",
	unix.AF_VSOCK: "vsock", unix.AF_ALG: "alg", unix.AF_BLUETOOTH: "bluetooth",
}

func familyName(family int) string {
	if name := families[family]; name != "" {
		return name
	}
	return fmt.Sprintf("family %d", family)
}

// socketName describes a new socket: "inet stream".
func socketName(family, kind int) string {
	switch kind & 0xF {
	case unix.SOCK_STREAM:
		return familyName(family) + " stream"
	case unix.SOCK_DGRAM:
		return familyName(family) + " datagram"
	case unix.SOCK_RAW:
		return familyName(family) + " raw"
	}
	return fmt.Sprintf("%s type %d", familyName(family), kind&0xF)
}
