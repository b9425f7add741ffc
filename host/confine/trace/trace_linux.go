package trace

import (
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/confine/restrict"
)

func init() {
	if len(os.Args) > 3 && os.Args[0] == Name {
		runtime.LockOSThread() // ptrace belongs to a thread
		os.Exit(run(os.Args[1], os.Args[2], os.Args[3:]))
	}
}

// tracer traces a server and the server's descendants.
type tracer struct {
	out    *os.File
	room   int // how many bytes may still be written to out; below 0: none
	seen   map[Event]bool
	server int
	tasks  map[int]*task // by thread id
	// begun is set once the server itself runs, after the confining process.
	begun   bool
	sockets map[string]string  // how a socket is made, by the socket's name in /proc/PID/fd
	status  syscall.WaitStatus // how the server has ended
}

// task is a traced thread.
type task struct {
	inside  bool // in a system call
	call    call
	started bool // the first stop, which is a SIGSTOP, is over
}

// run starts the server, traces the server until all processes have ended, and returns the exit
// status of the server.
func run(dir, path string, args []string) int {
	// The server gets these signals, too, and decides itself.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	out, err := os.OpenFile(filepath.Join(dir, EventsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fail("the events cannot be written: " + err.Error())
	}
	defer out.Close()
	t := &tracer{out: out, room: maxEvents / 2, seen: map[Event]bool{}, sockets: map[string]string{}, tasks: map[int]*task{}}
	var wg sync.WaitGroup
	defer wg.Wait()
	if t.server, err = t.start(&wg, filepath.Join(dir, confine.TraceProfile), path, args); err != nil {
		return fail(path + " cannot be started: " + err.Error())
	}
	t.tasks[t.server] = &task{started: true}
	t.loop()
	if t.status.Signaled() {
		signal.Reset()
		_ = syscall.Kill(os.Getpid(), t.status.Signal())
		return 128 + int(t.status.Signal())
	}
	return t.status.ExitStatus()
}

func fail(text string) int {
	_, _ = os.Stderr.WriteString("trace: " + text + "\n")
	return 1
}

// start starts the server stopped, and confined if profileFile exists.
func (t *tracer) start(wg *sync.WaitGroup, profileFile, path string, args []string) (pid int, err error) {
	attr := &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	}
	profile, err := os.ReadFile(profileFile)
	if err != nil { // the server is not to be confined
		t.begun = true
		pid, err = syscall.ForkExec(path, args, attr)
		t.release()
		return pid, err
	}
	var order, outcome [2]int
	if err := unix.Pipe2(order[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	if err := unix.Pipe2(outcome[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	attr.Files = append(attr.Files, uintptr(order[0]), uintptr(outcome[1]))
	pid, err = syscall.ForkExec("/proc/self/exe", append([]string{restrict.Name, path}, args...), attr)
	unix.Close(order[0])
	unix.Close(outcome[1])
	wg.Go(func() { // the process reads the profile while traced
		w := os.NewFile(uintptr(order[1]), "profile")
		_, _ = w.Write(profile)
		w.Close()
	})
	stderr, dupErr := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
	wg.Go(func() {
		text := make([]byte, 1024)
		n, _ := unix.Read(outcome[0], text)
		unix.Close(outcome[0])
		if dupErr == nil {
			if n > 0 {
				_, _ = unix.Write(stderr, append(text[:n], '\n'))
			}
			unix.Close(stderr)
		}
	})
	t.release()
	return pid, err
}

// release closes the server's pipes.
func (t *tracer) release() {
	if null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(null, fd, 0)
		}
	}
}

// loop handles stops until no process is left.
func (t *tracer) loop() {
	options := 0
	for {
		var status syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return
		}
		if !status.Stopped() {
			delete(t.tasks, tid)
			if tid == t.server {
				t.status = status
			}
			continue
		}
		if options == 0 {
			options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE |
				unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
			_ = unix.PtraceSetOptions(tid, options)
			_ = unix.PtraceSyscall(tid, 0)
			continue
		}
		_ = unix.PtraceSyscall(tid, t.stopped(tid, status))
	}
}

// stopped handles a stop, and returns the signal for the thread.
func (t *tracer) stopped(tid int, status syscall.WaitStatus) (signal int) {
	k := t.tasks[tid]
	if k == nil {
		k = &task{}
		t.tasks[tid] = k
	}
	switch stop := status.StopSignal(); {
	case stop == syscall.SIGTRAP|0x80:
		t.syscall(tid, k)
		return 0
	case stop == syscall.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
		// The thread that called execve continues with the id of the first thread.
		if former, err := unix.PtraceGetEventMsg(tid); err == nil && int(former) != tid && t.tasks[int(former)] != nil {
			*k = *t.tasks[int(former)]
			delete(t.tasks, int(former))
		}
		t.begun = true
		return 0
	case stop == syscall.SIGTRAP && status.TrapCause() > 0:
		return 0
	case stop == syscall.SIGSTOP && !k.started:
		k.started = true
		return 0
	default:
		return int(stop)
	}
}

// syscallInfo is struct ptrace_syscall_info.
type syscallInfo struct {
	Op     uint8
	_      [3]uint8
	Arch   uint32
	IP, SP uint64
	// At the entry: the number and the arguments. At the exit: the value, and whether the value is
	// an error.
	Values [8]uint64
}

const (
	infoEntry = 1
	infoExit  = 2
)

// syscall handles the entry or the exit of a system call.
func (t *tracer) syscall(tid int, k *task) {
	info, ok := syscallInfoOf(tid)
	if !ok {
		return
	}
	switch info.Op {
	case infoEntry:
		k.inside = true
		k.call = call{tid: tid, number: int(info.Values[0]), sockets: t.sockets}
		copy(k.call.args[:], info.Values[1:7])
		k.call.entry()
	case infoExit:
		if !k.inside {
			return
		}
		k.inside = false
		if !t.begun {
			return
		}
		value, failed := int64(info.Values[0]), byte(info.Values[1]) != 0
		errno := syscall.Errno(0)
		if failed {
			errno = syscall.Errno(-value)
		}
		k.call.tid = tid
		for _, e := range k.call.exit(value, errno) {
			t.write(e)
		}
	}
}

// write writes each distinct event once. The number of events of a server has no limit: beyond a
// maximum, a last event says that events are missing.
func (t *tracer) write(e Event) {
	if t.room < 0 || t.seen[e] {
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	if t.room -= len(b) + 1; t.room < 0 {
		b, _ = json.Marshal(Event{Kind: Omitted})
	}
	t.seen[e] = true
	_, _ = t.out.Write(append(b, '\n'))
}

// programOf returns the name of a process.
func programOf(tid int) string {
	b, _ := os.ReadFile(procPath(tid, "comm"))
	return strings.TrimSpace(string(b))
}
