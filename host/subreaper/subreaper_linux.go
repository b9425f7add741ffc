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

// maxOrder bounds an order, in bytes: no kernel takes more for one execve.
const maxOrder = 64 << 20

func init() {
	if len(os.Args) == 1 && os.Args[0] == Name && isSocket(socket) {
		syscall.Exit(run())
	}
}

func isSocket(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFSOCK
}

// run is the whole life of the process. It runs on the main thread, as
// initialization does: the parent-death signal of the server is bound to it.
func run() int {
	syscall.CloseOnExec(socket)
	name := [16]byte{}
	copy(name[:15], "mcp-supervisor")
	prctlName(&name)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return 1
	}
	// These signals are not for this process. They are caught rather than
	// ignored, because the server would inherit that they are ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	order, ok := receive()
	if !ok {
		return 1
	}
	group := newCgroup()
	defer group.remove()
	pid, err := start(order, group)
	if err != nil && group != nil { // perhaps because of the group
		pid, err = start(order, nil)
	}
	release()
	if err != nil {
		errno, _ := err.(syscall.Errno)
		send(Frame{Failed, uint32(errno)})
		return 0
	}
	send(Frame{Started, uint32(pid)})
	f := &family{server: pid, group: group}
	go f.serve()
	f.wait()
	return 0
}

// start starts the server, in a control group if there is one.
func start(order Order, group *cgroup) (pid int, err error) {
	sys := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if group != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, group.fd
	}
	return syscall.ForkExec(order.Path, order.Args, &syscall.ProcAttr{
		Dir: order.Dir, Env: order.Env, Files: []uintptr{0, 1, 2}, Sys: sys,
	})
}

// release lets go of the server's pipes and of the working directory.
func release() {
	if null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = syscall.Dup3(null, fd, 0)
		}
	}
	_ = syscall.Chdir("/")
}

// send writes a frame. That nobody is there to read it is noticed when reading.
func send(f Frame) {
	_, _ = syscall.Write(socket, f.Bytes())
}

// receive reads the order.
func receive() (Order, bool) {
	var size [4]byte
	if !fill(size[:]) {
		return Order{}, false
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxOrder {
		return Order{}, false
	}
	text := make([]byte, n)
	if !fill(text) {
		return Order{}, false
	}
	return parseOrder(string(text))
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

// family is the server and all of its descendants.
type family struct {
	server int
	group  *cgroup

	mu      sync.Mutex
	reaped  bool // the server's id may now be that of another process
	killing bool // all of them are to end
}

// serve handles requests until the socket ends.
func (f *family) serve() {
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
			return // there is nothing more to ask for
		}
	}
}

// wait reaps whatever ends, until no process is left. When the server has ended,
// the others are killed. A process that is started meanwhile is found when its
// parent is reaped at the latest: then it is our child.
func (f *family) wait() {
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

// reap reaps all processes that have ended. The caller holds f.mu, so that none
// of them is signalled any more.
func (f *family) reap() {
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

// kill kills all of them. If those that are left may not be signalled (they have
// become another user's), this process ends: nothing more can be done. The
// caller holds f.mu.
func (f *family) kill() {
	if !f.reaped {
		_ = syscall.Kill(-f.server, syscall.SIGKILL) // also where there is no /proc
	}
	dying := f.group.kill()
	if alive, denied := killDescendants(); alive > 0 && alive == denied && !dying {
		f.group.remove()
		syscall.Exit(0)
	}
}
