// Package process runs an MCP server as a subprocess. The package starts the server with a short
// list of environment variables, gives the pipes to the caller, logs the server's stderr, and ends
// the server with all descendants: through a subreaper on Linux (package subreaper), a process
// group on other Unix systems, a job object on Windows. Begin with Process. Run runs a command to
// the end.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/confine/trace"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

const (
	// drainTime is how long output is read after the exit of a process, on systems without
	// non-blocking reads of a pipe. More output can come only from a process that left the group
	// and holds the pipe open.
	drainTime = time.Second
	// defaultExitWait is the default of Options.ExitWait.
	defaultExitWait = time.Second // far more than needed, also on a busy machine
)

// Command is the command to start.
type Command struct {
	// Name is a path (relative to Dir if the path has a separator), or a name to look up in the
	// PATH of the process's own environment.
	Name string
	Args []string
	// Env holds KEY=VALUE. The process sees these and a short list of our own
	// variables (environ.go), nothing else.
	Env []string
	// Dir is the working directory; "": ours.
	Dir string
	// Sandbox confines the process; nil: the process has our rights. Own are files of ours that the
	// process does not get by accident; see confine.Place.
	Sandbox *confine.Settings
	Own     []string
}

// Options are the options of Start. The zero value is valid.
type Options struct {
	// Log gets the lines of the process's stderr. Nil: they are only kept for StderrTail.
	Log *slog.Logger
	// Charge is called with the number of bytes read from stderr before more are read. Charge may
	// block until exited is closed, which slows the process down. Nil: stderr is not limited.
	Charge func(bytes int, exited <-chan struct{})
	// ExitWait is how long EndReason waits for the exit status after the end of the output; 0: a
	// second. Only a server that closes the output and continues causes the whole wait.
	ExitWait time.Duration
}

// Process is a running server with the process tree and pipes. It is safe for concurrent use.
//
// The pipes are plain files, instead of exec.Cmd.StdoutPipe and the like, so that a grandchild that
// holds a pipe open does not delay the wait for the process.
type Process struct {
	pid           int
	group         group
	stdin, stdout *os.File // our ends; the caller closes them
	stderr        *os.File
	lines         *stderrLog
	exitWait      time.Duration
	wg            sync.WaitGroup

	stderrRead chan struct{} // closed when stderr has been read to the end
	stateKnown chan struct{} // closed when the exit status of the process is known
	state      string        // the exit status; set before stateKnown is closed
	exited     chan struct{} // see Exited
	released   chan struct{} // closed when the pipes are no longer needed
}

// Start starts a process. The caller closes Stdin and Stdout, and calls Stop and
// then Release.
func Start(command Command, opts Options) (*Process, error) {
	env := environ(os.Environ(), command.Env, runtime.GOOS == "windows")
	path, err := findCommand(command.Name, command.Dir, env)
	if err != nil {
		return nil, err
	}
	if command.Dir != "" {
		if fi, err := os.Stat(command.Dir); err != nil || !fi.IsDir() {
			return nil, fmt.Errorf("cwd %q is not a directory (create it or correct cwd)", command.Dir)
		}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.ExitWait == 0 {
		opts.ExitWait = defaultExitWait
	}
	p := &Process{
		exitWait:   opts.ExitWait,
		stderrRead: make(chan struct{}),
		stateKnown: make(chan struct{}),
		exited:     make(chan struct{}),
		released:   make(chan struct{}),
	}
	p.lines = &stderrLog{log: opts.Log, charge: opts.Charge, exited: p.exited}
	how, err := command.confined(path, env, opts.Log)
	if err != nil {
		return nil, err
	}
	program, args := how.wrap(path, append([]string{command.Name}, command.Args...))
	cmd := &exec.Cmd{
		Path:        program,
		Args:        args,
		Env:         how.Env,
		Dir:         command.Dir,
		SysProcAttr: sysProcAttr(),
	}
	childEnds, err := p.pipes(cmd)
	if err == nil {
		started := make(chan error)
		p.wg.Go(func() { p.run(cmd, how, started) })
		err = <-started
	}
	for _, f := range childEnds {
		f.Close()
	}
	if err != nil {
		how.discard()
		for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
			f.Close() // a nil *os.File is fine
		}
		p.wg.Wait()
		return nil, fmt.Errorf("command %q did not start: %w", command.Name, withoutPath(err))
	}
	p.wg.Go(func() {
		defer p.stderr.Close()
		defer close(p.stderrRead)
		p.lines.copy(&output{file: p.stderr})
	})
	return p, nil
}

// pipes makes the three pipes, and returns the ends for the process, which the caller closes after
// the start.
func (p *Process) pipes(cmd *exec.Cmd) (childEnds []*os.File, err error) {
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	in, stdin := pipe()
	stdout, out := pipe()
	stderr, errs := pipe()
	p.stdin, p.stdout, p.stderr = stdin, stdout, stderr
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	return []*os.File{in, out, errs}, err
}

// run starts, awaits and reaps the process, all on the same OS thread: on Linux the parent-death
// signal is sent when the thread that forked ends, and a thread locked by another goroutine may end
// before we do. Waiting blocks a thread anyway, so no thread is wasted.
func (p *Process) run(cmd *exec.Cmd, how plan, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := p.group.start(cmd, how, p.lines.log)
	if err != nil {
		started <- err
		return
	}
	p.pid = pid
	started <- nil
	p.group.wait(cmd, func(state string) {
		p.state = state
		close(p.stateKnown)
	})
	close(p.exited)
	now := time.Now()
	if !errors.Is(errors.Join(p.stdout.SetReadDeadline(now), p.stderr.SetReadDeadline(now)), os.ErrNoDeadline) {
		return // see output.Read
	}
	t := time.NewTimer(drainTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.released:
	}
	p.stdout.Close()
	p.stderr.Close()
}

// exitState describes how a process exited. err is the error of cmd.Wait.
func exitState(cmd *exec.Cmd, err error) string {
	if err != nil && cmd.ProcessState == nil {
		return err.Error()
	}
	return cmd.ProcessState.String()
}

// output is our end of a pipe that a process writes to. The output ends when the process has exited
// and the rest in the pipe has been read, even if another process still holds the pipe open.
// Otherwise readers could wait forever.
type output struct {
	file *os.File
	rest int // bytes read since the process exited
}

func (o *output) Close() error { return o.file.Close() }

// maxRest limits the output read after the exit of a process, in bytes, because another process may
// continue to write. By default, pipes hold no more than maxRest.
const maxRest = 1 << 20

func (o *output) Read(b []byte) (n int, err error) {
	n, err = o.file.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if o.rest < maxRest { // run has set the deadline: the process has ended
		n, _ = readNow(o.file, b[:min(len(b), maxRest-o.rest)])
		o.rest += n
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Pid returns the process id of the server.
func (p *Process) Pid() int { return p.pid }

// Stdin returns our end of the process's standard input. The caller closes it.
func (p *Process) Stdin() *os.File { return p.stdin }

// Stdout returns our end of the process's standard output, which ends after the exit of the
// process. The caller closes Stdout.
func (p *Process) Stdout() io.ReadCloser { return &output{file: p.stdout} }

// Exited returns a channel that is closed when the process has been reaped and the remaining
// processes have been killed.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// EndReason describes why the output ended; err is the error of the reader. EndReason waits up to
// Options.ExitWait for the exit status.
func (p *Process) EndReason(err error) string {
	t := time.NewTimer(p.exitWait)
	defer t.Stop()
	select {
	case <-p.stateKnown:
		return "its process ended: " + p.state + " (what it wrote to stderr is in the log)"
	case <-t.C:
	}
	if errors.Is(err, io.EOF) {
		return "it closed its output"
	}
	return fmt.Sprintf("reading from it failed: %v", err)
}

// StderrTail returns the last lines of the process's stderr, printable and of bounded length. After
// the exit of the process, StderrTail waits up to Options.ExitWait until stderr has been read to
// the end.
func (p *Process) StderrTail() []string {
	select {
	case <-p.stateKnown:
	default:
		return p.lines.tail()
	}
	t := time.NewTimer(p.exitWait)
	defer t.Stop()
	select {
	case <-p.stderrRead:
	case <-t.C: // the remaining processes are still being killed
	}
	return p.lines.tail()
}

// Stop ends the process and all processes started by the process, after the caller has closed
// Stdin: Stop waits up to grace, sends SIGTERM to the process group, waits up to grace, and sends
// SIGKILL (revision 2025-11-25, basic/lifecycle, shutdown). Stop does not wait once kill is closed.
// When Stop returns, no process of the group is left; on Linux, no descendant at all.
func (p *Process) Stop(grace time.Duration, kill <-chan struct{}) {
	for _, step := range []func(){p.group.terminate, p.group.kill} {
		if p.waitExit(grace, kill) {
			break
		}
		step()
	}
	<-p.exited
}

// Release closes the pipes after Stop, when Stdout has been read to the end. When Release returns,
// no goroutine and no open pipe is left.
func (p *Process) Release() {
	close(p.released)
	p.wg.Wait()
}

func (p *Process) waitExit(grace time.Duration, kill <-chan struct{}) bool {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
	case <-kill:
	}
	return false
}

// ownBinary is the path of our own program, which works even if the file has been replaced, for
// Linux. Tests set another path.
var ownBinary = "/proc/self/exe"

// plan is the plan for starting a server; without a profile the server is not confined.
type plan struct {
	confine.Plan
}

// confined makes the plan for a start.
func (c *Command) confined(path string, env []string, log *slog.Logger) (plan, error) {
	if c.Sandbox == nil {
		return plan{confine.Plan{Env: env}}, nil
	}
	made, err := confine.Prepare(c.Sandbox, confine.Place{Path: path, Dir: c.Dir, Env: env, Own: c.Own})
	if err != nil {
		return plan{}, err
	}
	if len(made.Lacks) > 0 {
		log.Warn("the server is confined as far as this machine can (best_effort)", "missing", strings.Join(made.Lacks, "; "), "machine", confine.Level())
	}
	return plan{*made}, nil
}

// wrap returns the program and the arguments to start: the server's, or the tracer with the
// server's.
func (p plan) wrap(path string, args []string) (string, []string) {
	if p.Trace == "" {
		return path, args
	}
	return ownBinary, append([]string{trace.Name, p.Trace, path}, args...)
}

// discard removes the files of a failed start.
func (p plan) discard() {
	if p.Temp != "" {
		_ = os.RemoveAll(p.Temp)
	}
}

// Place returns where a command is started, for package confine.
func Place(c Command) (confine.Place, error) {
	env := environ(os.Environ(), c.Env, runtime.GOOS == "windows")
	path, err := findCommand(c.Name, c.Dir, env)
	return confine.Place{Path: path, Dir: c.Dir, Env: env, Own: c.Own}, err
}

const (
	maxStderrLine = 2048 // logged bytes of a line
	tailLines     = 10   // the number of kept last lines
	maxTailLine   = 180  // kept bytes of each last line
)

// stderrLog logs the stderr of a process, line by line, and keeps the last lines.
type stderrLog struct {
	log    *slog.Logger
	charge func(bytes int, exited <-chan struct{}) // nil: stderr is not limited
	exited <-chan struct{}

	mu   sync.Mutex
	last []string
}

// copy reads r to the end. copy cuts lines at maxStderrLine and makes them printable. copy reads no
// faster than charge allows.
func (s *stderrLog) copy(r io.Reader) {
	in := bufio.NewReaderSize(r, maxStderrLine)
	for {
		part, err := in.ReadSlice('\n')
		s.spend(len(part))
		line := strings.TrimRight(strings.ToValidUTF8(string(part), "\uFFFD"), "\r\n")
		for errors.Is(err, bufio.ErrBufferFull) {
			part, err = in.ReadSlice('\n')
			s.spend(len(part))
			if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
				line += "..."
			}
		}
		if line = display.Text(line); line != "" {
			s.log.Info("stderr", "line", line)
			s.keep(line)
		}
		if err != nil {
			return
		}
	}
}

func (s *stderrLog) spend(bytes int) {
	if s.charge != nil {
		s.charge(bytes, s.exited)
	}
}

func (s *stderrLog) keep(line string) {
	if len(line) > maxTailLine {
		line = strings.ToValidUTF8(line[:maxTailLine], "") + "..."
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, line)
	if len(s.last) > tailLines {
		s.last = append(s.last[:0], s.last[1:]...)
	}
}

func (s *stderrLog) tail() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.last...)
}

// Run starts cmd and runs cmd to the end. cmd leads a separate process group (Windows: a job
// object), which is killed as a whole if ctx ends first; then the error is the cause of ctx. So cmd
// cannot read from a terminal. Unlike with Start, processes left behind by a regular end continue:
// programs that know secrets start agents that keep the secrets unlocked. Set cmd.WaitDelay for
// agents that keep the output open.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cmd.SysProcAttr = runAttr()
	if err := cmd.Start(); err != nil {
		return err
	}
	var g runGroup
	g.join(cmd.Process.Pid)
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(killed); g.kill() })
	err := g.wait(cmd)
	if !stop() {
		<-killed
		return context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // the command has succeeded; see WaitDelay
	}
	return err
}
