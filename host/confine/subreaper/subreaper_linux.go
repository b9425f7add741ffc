package subreaper

import (
	"encoding/binary"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

const (
	socket = 3 // our end of the socket

	prSetName           = 15
	prSetChildSubreaper = 36
	pAll                = 0
	wExited             = 4
	wNoWait             = 0x01000000
)

// maxCommand limits a command, in bytes. No kernel accepts more for an execve.
const maxCommand = 64 << 20

func init() {
	if len(os.Args) == 1 && os.Args[0] == Name && isSocket(socket) {
		syscall.Exit(run())
	}
}

func isSocket(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFSOCK
}

// run is the whole program of the process, and returns the exit status. run uses the main thread,
// as init functions do: the kernel sends the server's parent-death signal when the thread that
// started the server ends.
func run() int {
	syscall.CloseOnExec(socket)
	name := [16]byte{}
	copy(name[:15], "mcp-supervisor")
	prctlName(&name)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return 1
	}
	// These signals must not end this process. They are caught and not ignored,
	// because the server would inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	command, ok := receive()
	if !ok {
		return 1
	}
	group := newCgroup()
	defer group.remove()
	defer removeTemp(command.Temp)
	pid, err := start(command, group)
	if _, refused := err.(refusal); err != nil && group != nil && !refused { // perhaps because of the group
		pid, err = start(command, nil)
	}
	release()
	if err != nil {
		report(err)
		return 0
	}
	send(Frame{Started, uint32(pid)})
	f := &processTree{server: pid, group: group}
	go f.serve()
	f.wait()
	return 0
}

// report sends why the server did not start.
func report(err error) {
	if text, ok := err.(refusal); ok {
		send(Frame{Refused, uint32(len(text))})
		_, _ = syscall.Write(socket, []byte(text))
		return
	}
	errno, _ := err.(syscall.Errno)
	send(Frame{Failed, uint32(errno)})
}

// start starts the server, in a control group if possible.
func start(command Command, group *cgroup) (pid int, err error) {
	sys := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if group != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, group.fd
	}
	if command.Profile != nil {
		return startConfined(command, group, sys)
	}
	return syscall.ForkExec(command.Path, command.Args, &syscall.ProcAttr{
		Dir: command.Dir, Env: command.Env, Files: []uintptr{0, 1, 2}, Sys: sys,
	})
}

// release closes the server's pipes and leaves the working directory.
func release() {
	if null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = syscall.Dup3(null, fd, 0)
		}
	}
	_ = syscall.Chdir("/")
}

// send writes a frame. If the socket has no reader left, serve sees the end of the socket.
func send(f Frame) {
	_, _ = syscall.Write(socket, f.Bytes())
}

// receive reads the command.
func receive() (Command, bool) {
	var size [4]byte
	if !fill(size[:]) {
		return Command{}, false
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxCommand {
		return Command{}, false
	}
	text := make([]byte, n)
	if !fill(text) {
		return Command{}, false
	}
	return parseCommand(string(text))
}

// fill reads until b is full.
func fill(b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Read(socket, b)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// processTree is the server with all descendants.
type processTree struct {
	server int // process id
	group  *cgroup

	mu      sync.Mutex
	reaped  bool // the server was reaped; another process may have the id now
	killing bool // all processes are to be killed
}

// serve handles requests until the socket ends.
func (f *processTree) serve() {
	var b [1]byte
	for {
		if !fill(b[:]) {
			b[0] = Kill
		}
		f.mu.Lock()
		switch {
		case b[0] == Kill && !f.killing:
			f.killing = true
			f.kill()
		case b[0] == Terminate && !f.reaped:
			_ = syscall.Kill(-f.server, syscall.SIGTERM)
		}
		f.mu.Unlock()
		if b[0] == Kill {
			return // requests no longer have an effect
		}
	}
}

// wait reaps processes until none is left. After the end of the server, wait kills the other
// processes. A process started meanwhile is found, at the latest, when the process's parent is
// reaped, because then the process has become our child.
func (f *processTree) wait() {
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pAll, 0, 0, wExited|wNoWait, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return // ECHILD: no process is left
		}
		f.mu.Lock()
		f.reap()
		if f.killing {
			f.kill()
		}
		f.mu.Unlock()
	}
}

// reap reaps all ended processes. The caller holds f.mu, so that no process is signalled meanwhile.
func (f *processTree) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == f.server {
			f.reaped, f.killing = true, true
			send(Frame{Exited, uint32(status)})
		}
	}
}

// kill kills all processes. If the remaining processes belong to another user and may not be
// signalled, this process exits, because no further action is possible. The caller holds f.mu.
func (f *processTree) kill() {
	if !f.reaped {
		_ = syscall.Kill(-f.server, syscall.SIGKILL) // works without /proc
	}
	dying := f.group.kill()
	if alive, denied := killDescendants(); alive > 0 && alive == denied && !dying {
		f.group.remove()
		syscall.Exit(0)
	}
}
