package process

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/confine/subreaper"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// sysProcAttr puts a server without a supervisor into a separate process group, so that signals of
// our terminal do not reach the server, and makes the kernel kill the server when we end. The
// parent-death signal is SIGKILL, because no process would be left to enforce a milder signal.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// group is a server with all descendants, under a supervisor. If no supervisor can be started,
// group is the process group of the server.
type group struct {
	leader
	super *supervisor // nil: none
}

// supervisor is a running supervisor process (package subreaper).
type supervisor struct {
	cmd  *exec.Cmd
	conn *os.File // our end of the socket
}

// superviseWait is how long a supervisor may take to end all processes before the supervisor is
// killed.
const superviseWait = 5 * time.Second

// errNoSupervisor means that no supervisor could be started, and the server has not been started
// either.
var errNoSupervisor = errors.New("no supervisor could be started")

// start starts the server, without a supervisor if none can be started and the server is
// not confined.
func (g *group) start(cmd *exec.Cmd, how plan, log *slog.Logger) (pid int, err error) {
	g.super, g.pid, err = startSupervised(cmd, how)
	if errors.Is(err, errNoSupervisor) && how.Profile == nil {
		log.Warn("processes that leave the server's process group will not be ended with it", "err", err)
		if err = cmd.Start(); err == nil {
			g.pid = cmd.Process.Pid
		}
	}
	return g.pid, err
}

// startSupervised starts a supervisor, and under the supervisor the server.
func startSupervised(server *exec.Cmd, how plan) (s *supervisor, pid int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errNoSupervisor, err)
	}
	_ = unix.SetNonblock(pair[0], true) // so that reading has deadlines
	s = &supervisor{conn: os.NewFile(uintptr(pair[0]), "supervisor")}
	remote := os.NewFile(uintptr(pair[1]), "supervisor")
	s.cmd = &exec.Cmd{
		Path: ownBinary, Args: []string{subreaper.Name}, Env: supervisorEnv,
		Stdin: server.Stdin, Stdout: server.Stdout, Stderr: server.Stderr, ExtraFiles: []*os.File{remote},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	err = s.cmd.Start()
	remote.Close()
	if err != nil {
		s.conn.Close()
		return nil, 0, fmt.Errorf("%w: %w", errNoSupervisor, err)
	}
	pid, err = s.start(server, how)
	if err != nil {
		s.close()
		return nil, 0, err
	}
	return s, pid, nil
}

// supervisorEnv is the environment of a supervisor. The variables keep the process small, because a
// supervisor has very little to do.
var supervisorEnv = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}

// start makes the supervisor start the server, and returns the server's process id.
func (s *supervisor) start(server *exec.Cmd, how plan) (int, error) {
	command := subreaper.Command{
		Path: server.Path, Dir: server.Dir, Args: server.Args, Env: server.Environ(), Profile: how.Profile, Temp: how.Temp,
	}
	if _, err := s.conn.Write(command.Bytes()); err != nil {
		return 0, fmt.Errorf("%w: %w", errNoSupervisor, err)
	}
	f, err := s.next()
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", errNoSupervisor, err)
	case f.Kind == subreaper.Failed:
		return 0, syscall.Errno(f.Value)
	case f.Kind == subreaper.Refused:
		text := make([]byte, min(f.Value, maxRefusal))
		n, _ := io.ReadFull(s.conn, text)
		return 0, fmt.Errorf("it could not be confined: %s", display.EscapeLine(string(text[:n])))
	}
	return int(f.Value), nil
}

// maxRefusal limits the text of a refusal, in bytes.
const maxRefusal = 4096

func (s *supervisor) next() (subreaper.Frame, error) {
	var b [subreaper.FrameSize]byte
	_, err := io.ReadFull(s.conn, b[:])
	return subreaper.ParseFrame(b), err
}

// close kills the supervisor, and waits for the end.
func (s *supervisor) close() {
	s.conn.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // the exit status does not matter
}

func (g *group) terminate() {
	if g.super == nil {
		g.signal(syscall.SIGTERM, false)
		return
	}
	g.super.ask(subreaper.Terminate)
}

func (g *group) kill() {
	if g.super == nil {
		g.signal(syscall.SIGKILL, false)
		return
	}
	g.super.ask(subreaper.Kill)
	_ = g.super.conn.SetReadDeadline(time.Now().Add(superviseWait))
}

// ask sends a request. After a failure, the supervisor has ended.
func (s *supervisor) ask(request byte) {
	_, _ = s.conn.Write([]byte{request})
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // a user may have stopped the supervisor
}

// wait waits until the server has exited and all other processes of the server have ended. wait
// calls exited once, as soon as the server's exit status is known.
func (g *group) wait(cmd *exec.Cmd, exited func(state string)) {
	if g.super != nil {
		g.super.wait(&g.leader, exited)
		return
	}
	if waitExit(g.pid) {
		// In this order the id of the group cannot have been reused.
		g.signal(syscall.SIGKILL, true)
		exited(exitState(cmd, cmd.Wait()))
		return
	}
	err := cmd.Wait()
	g.signal(syscall.SIGKILL, true)
	exited(exitState(cmd, err))
}

// wait waits for the end of the supervisor, which ends after all supervised processes. If another
// process killed the supervisor, the system has killed the server, and wait kills the rest of the
// server's group.
func (s *supervisor) wait(server *leader, exited func(state string)) {
	told := false
	for {
		f, err := s.next()
		if err != nil {
			break
		}
		if f.Kind == subreaper.Exited && !told {
			told = true
			exited(waitState(syscall.WaitStatus(f.Value)))
			_ = s.conn.SetReadDeadline(time.Now().Add(superviseWait))
		}
	}
	s.close()
	if !told {
		server.signal(syscall.SIGKILL, true)
		exited("its supervisor was killed")
	}
}

// waitState describes how a process exited, in the words of os.ProcessState.
func waitState(w syscall.WaitStatus) string {
	state := ""
	switch {
	case w.Exited():
		return fmt.Sprintf("exit status %d", w.ExitStatus())
	case w.Signaled():
		state = "signal: " + w.Signal().String()
	}
	if w.CoreDump() {
		state += " (core dumped)"
	}
	return state
}

// waitExit waits until our child pid has exited, without reaping the child.
func waitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
