package confine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Results of the filter for a system call.
const (
	allow   = uint32(unix.SECCOMP_RET_ALLOW)
	refuse  = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	noRight = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EACCES) // Landlock's answer, for sockets
	missing = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
	kill    = uint32(unix.SECCOMP_RET_KILL_PROCESS)
)

// Offsets in struct seccomp_data. Arguments have 64 bits; most system calls use only the lower
// half, so the filter compares only the lower half: the upper half could have any value.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// filter returns the program for seccomp; nil for an unsupported processor.
func (s *Settings) filter() ([]byte, error) {
	refused, err := s.refused()
	if err != nil {
		return nil, err
	}
	known := knownSyscalls()
	if len(known) == 0 {
		return nil, nil
	}
	f := &assembler{}
	f.load(offsetArch)
	f.unless(unix.BPF_JEQ, arch, kill) // a program for another processor has other numbers
	f.load(offsetNumber)
	// The system calls of newer kernels have not been judged here. Libraries do without them. The
	// numbers of the x32 ABI on amd64 are in this range, too.
	f.when(unix.BPF_JGT, uint32(slices.Max(slices.Collect(maps.Values(known)))), missing)
	for _, number := range slices.Sorted(maps.Values(refused)) {
		f.when(unix.BPF_JEQ, uint32(number), refuse)
	}
	for _, c := range s.conditions() {
		number, ok := known[c.name] // not every processor has all of them
		if _, always := refused[c.name]; ok && !always && !slices.Contains(s.AllowSyscalls, c.name) {
			f.block(uint32(number), c.code)
		}
	}
	f.result(allow)
	return f.bytes(), nil
}

// refused returns the system calls that are refused with any arguments.
func (s *Settings) refused() (map[string]int, error) {
	known := knownSyscalls()
	refused := map[string]int{}
	for _, name := range strings.Fields(forbiddenNames + sharedNames) {
		if number, ok := known[name]; ok { // not every processor has all of them
			refused[name] = number
		}
	}
	for _, name := range s.DenySyscalls {
		number, ok := known[name]
		if !ok {
			return nil, unknownSyscall("deny_syscalls", name)
		}
		refused[name] = number
	}
	for _, name := range s.AllowSyscalls {
		if _, ok := known[name]; !ok {
			return nil, unknownSyscall("allow_syscalls", name)
		}
		delete(refused, name)
	}
	return refused, nil
}

func unknownSyscall(key, name string) error {
	hint := ""
	if near := nearest.Names(name, slices.Sorted(maps.Keys(knownSyscalls()))); near != nil {
		hint = ": did you mean " + strings.Join(near, ", ") + "?"
	}
	return fmt.Errorf("%s in the sandbox: there is no system call %q here%s", key, name, hint)
}

// condition is a system call that is allowed with some arguments only. code ends with a result.
type condition struct {
	name string
	code func(*assembler)
}

// The flags of clone that make namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

const tiocLinux = 0x541C // sends input to a console, among other things

// conditions returns the system calls allowed with some arguments only.
func (s *Settings) conditions() []condition {
	list := []condition{
		{"clone", func(f *assembler) {
			f.argument(0)
			f.when(unix.BPF_JSET, namespaces, refuse)
			f.result(allow)
		}},
		// The flags of clone3 are in memory, where no filter sees them. Libraries fall back to
		// clone.
		{"clone3", func(f *assembler) { f.result(missing) }},
		{"ioctl", func(f *assembler) {
			f.argument(1)
			f.when(unix.BPF_JEQ, unix.TIOCSTI, refuse)
			f.when(unix.BPF_JEQ, tiocLinux, refuse)
			f.result(allow)
		}},
		{"prlimit64", func(f *assembler) { // prlimit64 could limit our process to no time at all
			f.argument(0)
			f.unless(unix.BPF_JEQ, 0, refuse)
			f.result(allow)
		}},
		{"setpriority", func(f *assembler) { // of the process itself, not of all processes of a group or a user
			f.argument(0)
			f.unless(unix.BPF_JEQ, unix.PRIO_PROCESS, refuse)
			f.argument(1)
			f.unless(unix.BPF_JEQ, 0, refuse)
			f.result(allow)
		}},
		{"personality", func(f *assembler) {
			f.argument(0)
			f.when(unix.BPF_JEQ, 0, allow)
			f.when(unix.BPF_JEQ, 0xFFFFFFFF, allow) // asks
			f.result(refuse)
		}},
		{"socket", s.socket},
		{"socketpair", s.socketPair},
	}
	list = append(list, fileConditions()...)
	if s.NetworkOrNone() == NetworkPorts {
		list = append(list, s.portConditions()...)
	}
	return list
}

// portConditions returns the conditions for a server that may use certain ports only: ways to
// connect and to listen that Landlock does not see.
func (s *Settings) portConditions() []condition {
	fastOpen := func(arg int) func(*assembler) {
		return func(f *assembler) {
			f.argument(arg)
			f.when(unix.BPF_JSET, unix.MSG_FASTOPEN, refuse)
			f.result(allow)
		}
	}
	list := []condition{
		{"sendto", fastOpen(3)},
		{"sendmsg", fastOpen(2)},
		{"sendmmsg", fastOpen(3)},
		{"setsockopt", func(f *assembler) { // SMC in place of TCP
			f.argument(1)
			f.unless(unix.BPF_JEQ, unix.IPPROTO_TCP, allow)
			f.argument(2)
			f.when(unix.BPF_JEQ, unix.TCP_ULP, refuse)
			f.result(allow)
		}},
	}
	if len(s.Listen) == 0 && !s.Unix { // without bind, the kernel chooses a free port
		list = append(list, condition{"listen", func(f *assembler) { f.result(noRight) }})
	}
	return list
}

// socketType is the mask of a socket's type; the other bits are flags.
const socketType = 0xF

// socket says which sockets may be made. Landlock knows nothing but TCP.
func (s *Settings) socket(f *assembler) {
	f.argument(0)
	if s.Unix {
		f.when(unix.BPF_JEQ, unix.AF_UNIX, allow)
	}
	if s.NetworkOrNone() == NetworkNone {
		f.result(noRight)
		return
	}
	netlink := &assembler{} // the list of interfaces; other uses need privileges
	netlink.argument(2)
	netlink.unless(unix.BPF_JEQ, unix.NETLINK_ROUTE, noRight)
	netlink.result(allow)
	f.skipUnless(unix.BPF_JEQ, unix.AF_NETLINK, netlink)
	if s.Network == NetworkAll {
		f.when(unix.BPF_JEQ, unix.AF_INET, allow)
		f.when(unix.BPF_JEQ, unix.AF_INET6, allow)
		f.result(noRight)
		return
	}
	f.jump(unix.BPF_JEQ, unix.AF_INET, 2, 0) // over the two instructions of unless
	f.unless(unix.BPF_JEQ, unix.AF_INET6, noRight)
	f.argument(1)
	f.mask(socketType)
	protocol := func(number uint32) *assembler { // MPTCP, for example, is a stream that Landlock does not restrict
		p := &assembler{}
		p.argument(2)
		p.when(unix.BPF_JEQ, 0, allow)
		p.when(unix.BPF_JEQ, number, allow)
		p.result(noRight)
		return p
	}
	f.skipUnless(unix.BPF_JEQ, unix.SOCK_STREAM, protocol(unix.IPPROTO_TCP))
	if s.UDP {
		f.skipUnless(unix.BPF_JEQ, unix.SOCK_DGRAM, protocol(unix.IPPROTO_UDP))
	}
	f.result(noRight)
}

// socketPair restricts the pairs of sockets that may be made. A datagram socket could be connected
// to another socket in the file system later.
func (s *Settings) socketPair(f *assembler) {
	f.argument(0)
	f.unless(unix.BPF_JEQ, unix.AF_UNIX, noRight)
	f.argument(1)
	f.mask(socketType)
	if s.Unix {
		f.result(allow)
		return
	}
	f.when(unix.BPF_JEQ, unix.SOCK_STREAM, allow)
	f.when(unix.BPF_JEQ, unix.SOCK_SEQPACKET, allow)
	f.result(noRight)
}

// assembler makes a BPF program (struct sock_filter).
type assembler struct{ code []unix.SockFilter }

func (f *assembler) add(code uint16, jt, jf uint8, k uint32) {
	f.code = append(f.code, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

// load loads 4 bytes of struct seccomp_data.
func (f *assembler) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

// argument loads the lower half of an argument, which comes first on the supported processors.
func (f *assembler) argument(i int) { f.load(offsetArgs + 8*uint32(i)) }

func (f *assembler) mask(k uint32) { f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, k) }

func (f *assembler) jump(test uint16, k uint32, jt, jf uint8) {
	f.add(unix.BPF_JMP|test|unix.BPF_K, jt, jf, k)
}

func (f *assembler) result(r uint32) { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, r) }

// when ends with a result if the loaded value passes a test.
func (f *assembler) when(test uint16, k, r uint32) {
	f.jump(test, k, 0, 1)
	f.result(r)
}

// unless ends with a result if the loaded value does not pass a test.
func (f *assembler) unless(test uint16, k, r uint32) {
	f.jump(test, k, 1, 0)
	f.result(r)
}

// skipUnless runs code, which ends with a result, if the loaded value passes a test.
func (f *assembler) skipUnless(test uint16, k uint32, code *assembler) {
	if len(code.code) > 255 {
		panic("confine: a block of the filter is too long to be jumped over")
	}
	f.jump(test, k, 0, uint8(len(code.code)))
	f.code = append(f.code, code.code...)
}

// block runs code for a system call.
func (f *assembler) block(number uint32, code func(*assembler)) {
	inner := &assembler{}
	code(inner)
	f.skipUnless(unix.BPF_JEQ, number, inner)
}

func (f *assembler) bytes() []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.NativeEndian, f.code) // a bytes.Buffer never fails
	return b.Bytes()
}
