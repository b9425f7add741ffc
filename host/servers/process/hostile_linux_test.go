package process

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostileEnv makes the test binary a hostile server: the value is an order as JSON.
const hostileEnv = "PROCESS_TEST_HOSTILE"

// folder is the key of the folder for temporary files in the output of a hostile server.
const folder = "TMPDIR"

// order lists the attempts of a hostile server.
type order struct {
	Attempts []string // names in attempts

	Secret    string // a file that the server may not read
	Outside   string // a folder that the server may not write
	Readable  string // a folder that the server may read
	Writable  string // a folder that the server may write
	Program   string // a program that the server may execute
	Setuid    string // cat, of root and with the setuid bit
	TCP, UDP  int    // ports on 127.0.0.1
	Unix      string // a socket in the file system
	Abstract  string // an abstract socket
	Datagrams string // a datagram socket in the file system
	Parent    int    // the process that has started the supervisor
}

func init() {
	if os.Getenv(hostileEnv) != "" {
		runtime.LockOSThread() // the main thread has the parent-death signal
	}
}

// hostile tries everything in the order, and writes an object to standard output: for each attempt
// "ok", or the name of the errno.
func hostile() {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(hostileEnv)), &o); err != nil {
		panic(err)
	}
	outcome := map[string]string{folder: os.TempDir()}
	for _, name := range o.Attempts {
		err := attempts[name](&o)
		switch errno := syscall.Errno(0); {
		case err == nil:
			outcome[name] = "ok"
		case errors.As(err, &errno):
			outcome[name] = unix.ErrnoName(errno)
		default:
			outcome[name] = err.Error()
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(outcome)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the process is stopped
}

// attempts are the possible attempts of a hostile server. None does harm after a success.
var attempts = map[string]func(o *order) error{
	// Files.
	"read a secret":         func(o *order) error { return opens(o.Secret, os.O_RDONLY) },
	"list its folder":       func(o *order) error { return second(os.ReadDir(filepath.Dir(o.Secret))) },
	"read what is readable": func(o *order) error { return opens(o.Readable+"/r", os.O_RDONLY) },
	"write what is readable": func(o *order) error {
		return opens(o.Readable+"/r", os.O_WRONLY)
	},
	"create in the readable":              func(o *order) error { return opens(o.Readable+"/new", os.O_CREATE|os.O_WRONLY) },
	"create outside":                      func(o *order) error { return opens(o.Outside+"/new", os.O_CREATE|os.O_WRONLY) },
	"create in the writable":              func(o *order) error { return opens(o.Writable+"/new", os.O_CREATE|os.O_RDWR) },
	"lock its folder for temporary files": func(*order) error { return locksTemp() },
	"create temporary":                    func(*order) error { return opens(os.TempDir()+"/new", os.O_CREATE|os.O_RDWR) },
	"truncate outside":                    func(o *order) error { return os.Truncate(o.Secret, 1) },
	"remove outside":                      func(o *order) error { return syscall.Unlink(o.Secret) },
	"make a folder outside":               func(o *order) error { return os.Mkdir(o.Outside+"/d", 0o700) },
	"make a FIFO outside":                 func(o *order) error { return syscall.Mkfifo(o.Outside+"/fifo", 0o600) },
	"make a device":                       func(o *order) error { return syscall.Mknod(o.Writable+"/dev", syscall.S_IFCHR|0o600, 1<<8|3) },
	"make a socket":                       func(o *order) error { return syscall.Mknod(o.Writable+"/sock", syscall.S_IFSOCK|0o600, 0) },
	"follow a link of its own": func(o *order) error {
		link := o.Writable + "/link"
		_ = os.Remove(link)
		if err := os.Symlink(o.Secret, link); err != nil {
			return err
		}
		return opens(link, os.O_RDONLY)
	},
	"link a secret":                   func(o *order) error { return os.Link(o.Secret, o.Writable+"/hard") },
	"move a secret":                   func(o *order) error { return os.Rename(o.Secret, o.Writable+"/moved") },
	"move out":                        func(o *order) error { return movesOut(o) },
	"exchange":                        func(o *order) error { return exchanges(o) },
	"change a mode":                   func(o *order) error { return syscall.Chmod(o.Secret, 0o666) },
	"change an owner":                 func(o *order) error { return syscall.Lchown(o.Secret, os.Getuid(), os.Getgid()) },
	"set an attribute":                func(o *order) error { return syscall.Setxattr(o.Secret, "user.x", []byte("x"), 0) },
	"open for ioctl alone":            func(o *order) error { return opens(o.Secret, 3) },
	"open for ioctl alone, high bits": func(o *order) error { return openat(o.Secret, 1<<32|3, 0) },
	"open for ioctl alone, openat2":   func(o *order) error { return openat2(o.Secret, 3) },
	"set times":                       func(o *order) error { return syscall.UtimesNano(o.Secret, make([]syscall.Timespec, 2)) },
	"set times of its own":            func(o *order) error { return own(o, func(fd int) error { return futimens(fd) }) },
	"set an attribute of its own": func(o *order) error {
		return own(o, func(fd int) error { return unix.Fsetxattr(fd, "user.x", []byte("x"), 0) })
	},
	"change an owner of its own": func(o *order) error {
		return own(o, func(fd int) error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) })
	},
	"change a mode of its own":    func(o *order) error { return own(o, func(fd int) error { return unix.Fchmod(fd, 0o640) }) },
	"set-user-ID bit":             func(o *order) error { return own(o, func(fd int) error { return unix.Fchmod(fd, 0o4755) }) },
	"set-user-ID file":            func(o *order) error { return openat(o.Writable+"/suid", unix.O_CREAT|unix.O_WRONLY, 0o4755) },
	"set-group-ID file, by mknod": func(o *order) error { return syscall.Mknod(o.Writable+"/sgid", syscall.S_IFREG|0o2755, 0) },
	"leave by /proc":              func(o *order) error { return opens("/proc/self/root"+o.Secret, os.O_RDONLY) },
	"leave by ..": func(o *order) error {
		return opens(o.Writable+"/../"+filepath.Base(filepath.Dir(o.Secret))+"/"+filepath.Base(o.Secret), os.O_RDONLY)
	},
	"open by handle":        func(*order) error { return call(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) },
	"execute its own":       func(o *order) error { return executesOwn(o) },
	"execute other":         func(*order) error { return run("/bin/sh", "-c", ":") },
	"execute the allowed":   func(o *order) error { return run(o.Program) },
	"become root by setuid": func(o *order) error { return run(o.Setuid, o.Readable+"/root") },
	"inherited descriptors": inheritedDescriptors,

	// The network.
	"connect TCP":         func(o *order) error { return connects(unix.AF_INET, unix.SOCK_STREAM, 0, o.TCP) },
	"connect TCP 6":       func(o *order) error { return second(socket(unix.AF_INET6, unix.SOCK_STREAM, 0)) },
	"connect UDP":         func(o *order) error { return connects(unix.AF_INET, unix.SOCK_DGRAM, 0, o.UDP) },
	"connect MPTCP":       func(o *order) error { return connects(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, o.TCP) },
	"TCP Fast Open":       func(o *order) error { return fastOpen(o.TCP) },
	"ULP":                 func(*order) error { return ulp() },
	"listen":              func(*order) error { return listens() },
	"listen without bind": func(*order) error { return listensUnbound() },
	"listen on the port": func(o *order) error {
		l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(o.TCP))
		if err == nil {
			l.Close()
		}
		return err
	},
	"raw socket":    func(*order) error { return second(socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)) },
	"packet socket": func(*order) error { return second(socket(unix.AF_PACKET, unix.SOCK_RAW, 0)) },
	"netlink":       func(*order) error { return second(socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)) },
	"netlink audit": func(*order) error { return second(socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)) },
	"vsock":         func(*order) error { return second(socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)) },
	"kernel crypto": func(*order) error { return second(socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)) },
	"socket, high bits": func(*order) error {
		return call(unix.SYS_SOCKET, 1<<32|unix.AF_INET, unix.SOCK_DGRAM, 0)
	},
	"unix socket":     func(o *order) error { return unixSocket(o.Unix) },
	"abstract socket": func(o *order) error { return unixSocket("@" + o.Abstract) },
	"socket pair":     func(*order) error { return second(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)) },
	"datagram by a socket pair": func(o *order) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: o.Datagrams})
	},

	// Other processes.
	"signal the supervisor":      func(*order) error { return syscall.Kill(os.Getppid(), 0) },
	"signal us":                  func(o *order) error { return syscall.Kill(o.Parent, 0) },
	"signal us by pidfd":         func(o *order) error { return pidfdSignal(o.Parent) },
	"trace the supervisor":       func(*order) error { return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(os.Getppid()), 0) },
	"read memory":                func(o *order) error { return opens(proc(o.Parent, "mem"), os.O_RDONLY) },
	"write memory":               func(*order) error { return opens(proc(os.Getppid(), "mem"), os.O_WRONLY) },
	"read an environment":        func(o *order) error { return opens(proc(o.Parent, "environ"), os.O_RDONLY) },
	"read a command line":        func(o *order) error { return opens(proc(o.Parent, "cmdline"), os.O_RDONLY) },
	"process_vm_readv":           func(o *order) error { return call(unix.SYS_PROCESS_VM_READV, uintptr(o.Parent), 0, 0) },
	"take a descriptor":          func(*order) error { return call(unix.SYS_PIDFD_GETFD, 0, 0, 0) },
	"limit us":                   func(o *order) error { return prlimit(o.Parent) },
	"limit itself":               func(*order) error { return prlimit(0) },
	"slow us down":               func(o *order) error { return syscall.Setpriority(syscall.PRIO_PROCESS, o.Parent, 19) },
	"slow down all of the user":  func(*order) error { return keepPriority(syscall.PRIO_USER) },
	"slow down a group":          func(*order) error { return keepPriority(syscall.PRIO_PGRP) },
	"shared memory":              func(*order) error { return call(unix.SYS_SHMGET, 0, 4096, 0o600) },
	"signal its child's process": func(*order) error { return syscall.Kill(os.Getpid(), 0) },

	// The kernel.
	"user namespace":       func(*order) error { return call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0) },
	"namespace by clone":   func(*order) error { return clones(unix.CLONE_NEWUSER) },
	"clone3":               func(*order) error { return call(unix.SYS_CLONE3, 0, 0, 0) },
	"join a namespace":     func(*order) error { return call(unix.SYS_SETNS, 0, 0, 0) },
	"mount":                func(o *order) error { return syscall.Mount("none", o.Writable, "tmpfs", 0, "") },
	"mount, new style":     func(*order) error { return call(unix.SYS_FSOPEN, 0, 0, 0) },
	"chroot":               func(o *order) error { return syscall.Chroot(o.Writable) },
	"io_uring":             func(*order) error { return call(unix.SYS_IO_URING_SETUP, 0, 0, 0) },
	"userfaultfd":          func(*order) error { return call(unix.SYS_USERFAULTFD, 0, 0, 0) },
	"performance events":   func(*order) error { return call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) },
	"BPF":                  func(*order) error { return call(unix.SYS_BPF, ^uintptr(0), 0, 0) },
	"key ring":             func(*order) error { return call(unix.SYS_KEYCTL, 0, 0, 0) },
	"kernel module":        func(*order) error { return call(unix.SYS_FINIT_MODULE, ^uintptr(0), 0, 0) },
	"kexec":                func(*order) error { return call(unix.SYS_KEXEC_LOAD, 0, 0, 0) },
	"reboot":               func(*order) error { return call(unix.SYS_REBOOT, 0, 0, 0) },
	"terminal input":       func(*order) error { return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0) },
	"terminal, high bits":  func(*order) error { return call(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI, 0) },
	"x32":                  func(*order) error { return call(0x40000000|39, 0, 0, 0) },
	"personality":          func(*order) error { return call(unix.SYS_PERSONALITY, 0x0400000, 0, 0) },
	"no new privileges":    func(*order) error { return status("NoNewPrivs:\t1") },
	"no capabilities":      func(*order) error { return status("CapEff:\t0000000000000000") },
	"no bounding set":      func(*order) error { return status("CapBnd:\t0000000000000000") },
	"filtered":             func(*order) error { return status("Seccomp:\t2") },
	"ends with its parent": func(*order) error { return parentDeath() },

	// Resources.
	"an hour of processor time": func(*order) error { return limited(unix.RLIMIT_CPU, 3600) },
	"no core dumps":             func(*order) error { return limited(unix.RLIMIT_CORE, 0) },
	"open 10000 files":          func(*order) error { return openMany(10000) },
	"use a gigabyte":            func(*order) error { return useMemory(1 << 30) },
	"fork bomb":                 func(*order) error { return forkBomb(200) },
}

func second[T any](_ T, err error) error { return err }

func call(number, a, b, c uintptr) error {
	if _, _, errno := syscall.Syscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func proc(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

func socket(family, kind, protocol int) (int, error) {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return fd, err
}

func connects(family, kind, protocol, port int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}

func fastOpen(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}

func ulp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, "smc")
}

func listensUnbound() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Listen(fd, 1)
}

func listens() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		l.Close()
	}
	return err
}

func unixSocket(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

// run executes a program and waits for the end.
func run(argv ...string) error {
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Env: []string{}})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if status.ExitStatus() != 0 {
		return errors.New("exit status " + strconv.Itoa(status.ExitStatus()))
	}
	return nil
}

func pidfdSignal(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

func prlimit(pid int) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &limit); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_CORE, &limit, nil)
}

// keepPriority sets the priority of processes to their current priority.
func keepPriority(kind int) error {
	nice, err := syscall.Getpriority(kind, 0)
	if err != nil {
		return err
	}
	return syscall.Setpriority(kind, 0, 20-nice) // the system call returns the priority in this way
}

// clones makes a process with flags, which ends at once.
func clones(flags uintptr) error {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, flags|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, _ = syscall.Wait4(int(pid), nil, 0, nil)
	return nil
}

func status(line string) error {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), line) {
		return errors.New("no " + line)
	}
	return nil
}

func limited(resource int, want uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return err
	}
	if limit.Max != want {
		return errors.New("the limit is " + strconv.FormatUint(limit.Max, 10))
	}
	return nil
}

func parentDeath() error {
	var signal int
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0); errno != 0 {
		return errno
	}
	if signal != int(syscall.SIGKILL) {
		return errors.New("signal " + strconv.Itoa(signal))
	}
	return nil
}

func useMemory(size int) error {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err == nil {
		_ = syscall.Munmap(b)
	}
	return err
}

// forkBomb makes processes that live until they are killed.
func forkBomb(n int) (err error) {
	pids := make([]int, 0, n)
	for range n {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			err = errno
			break
		}
		if pid == 0 {
			for {
				_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
		pids = append(pids, int(pid))
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
	return err
}
