package restrict

import (
	"os"
	"strings"
	"syscall"
	"unsafe"
)

const (
	prSetSeccomp      = 22
	seccompModeFilter = 2
	prSetNoNewPrivs   = 38

	// The numbers of newer system calls are the same on all machines but MIPS and Alpha,
	// for which package confine makes no profiles.
	sysCloseRange     = 436
	closeRangeCloexec = 1 << 2
)

func init() {
	if len(os.Args) > 2 && os.Args[0] == Name && isPipe(ProfileFD) && isPipe(FailureFD) {
		syscall.CloseOnExec(FailureFD)
		fail(run(os.Args[1], os.Args[2:]))
		syscall.Exit(1)
	}
}

func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// failure is what the kernel has refused.
type failure struct {
	what string
	err  error
}

// run becomes the server, or returns why it could not. It runs on the main thread, as
// init functions do. Landlock, the filter and capabilities belong to a thread, and execve
// ends all threads but the one that calls it.
func run(path string, args []string) *failure {
	profile, ok := Parse(strings.Split(read(ProfileFD), "\x00"))
	if !ok {
		return &failure{"read its profile", syscall.EINVAL}
	}
	// Whatever was left open by those who started us, the server does not get.
	if _, _, errno := syscall.RawSyscall(sysCloseRange, 3, ^uintptr(0), closeRangeCloexec); errno != 0 {
		for fd := 3; fd < 1024; fd++ { // before Linux 5.11
			syscall.CloseOnExec(fd)
		}
	}
	if f := profile.apply(); f != nil {
		return f
	}
	return &failure{"execute " + path, syscall.Exec(path, args, syscall.Environ())}
}

// apply takes the rights away. The filter is the last, because it may refuse what the
// other steps need, and limits of memory and files come late, because this process needs
// some itself.
func (p *Profile) apply() *failure {
	limits := p.limits() // while /proc can be read
	if f := dropCapabilities(); f != nil {
		return f
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return &failure{"give up new privileges (prctl)", errno}
	}
	if f := p.landlock(); f != nil {
		return f
	}
	if f := limit(limits); f != nil {
		return f
	}
	return p.filter()
}

// filter installs the filter for system calls (seccomp(2)).
func (p *Profile) filter() *failure {
	const size = 8 // of an instruction, struct sock_filter
	if len(p.Filter) == 0 {
		return nil
	}
	program := struct {
		len    uint16
		filter *byte
	}{uint16(len(p.Filter) / size), &p.Filter[0]}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetSeccomp, seccompModeFilter, uintptr(unsafe.Pointer(&program)), 0, 0, 0); errno != 0 {
		return &failure{"install a filter for system calls (seccomp)", errno}
	}
	return nil
}

// fail sends the message.
func fail(f *failure) {
	_, _ = syscall.Write(FailureFD, []byte("could not "+f.what+": "+f.err.Error()))
}

// read reads fd to its end and closes it.
func read(fd int) string {
	var text []byte
	b := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 {
			syscall.Close(fd)
			return string(text)
		}
		text = append(text, b[:n]...)
	}
}
