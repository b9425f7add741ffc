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

// failure is a refusal of the kernel.
type failure struct {
	action string
	err    error
}

// run becomes the server, or returns the reason of the failure. run uses the main thread, as init
// functions do. Landlock, the filter and capabilities belong to a thread, and execve ends all other
// threads.
func run(path string, args []string) *failure {
	profile, ok := Parse(strings.Split(read(ProfileFD), "\x00"))
	if !ok {
		return &failure{"read its profile", syscall.EINVAL}
	}
	// The server does not get file descriptors left open by the starting process.
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

// apply gives the rights up. The filter comes last, because the filter may refuse calls of the
// other steps, and limits of memory and files come late, because this process needs some memory and
// files.
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
	_, _ = syscall.Write(FailureFD, []byte("could not "+f.action+": "+f.err.Error()))
}

// read reads fd to the end and closes fd.
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
