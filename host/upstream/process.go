package upstream

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// drainTime is how long the output of a process is read after its end where a
// pipe cannot be read without waiting. There is more to come only if a process
// that left the group holds the pipe open.
const drainTime = time.Second

// exitWait is how long the end of the output waits for the exit status, to say
// it to the callers whose answer will not come. Longer in tests.
var exitWait = 50 * time.Millisecond

// process is a server's process with its group and pipes.
//
// The pipes are plain files, not exec's StdoutPipe and the like, so that Wait
// waits for the process alone, and a grandchild that holds a pipe open delays
// nothing.
type process struct {
	pid           int
	group         group
	stdin, stdout *os.File // our ends; owned by the Conn
	stderr        *os.File
	errs          *stderrLog
	wg            sync.WaitGroup

	errsRead chan struct{} // closed when stderr is read to its end
	stated   chan struct{} // closed when it is known how the process exited
	state    string        // how; set before stated is closed
	exited   chan struct{} // closed when the process is reaped and what it left behind killed
	released chan struct{} // closed when nobody needs the pipes any more
}

// startProcess starts the process of spec.
func startProcess(spec Spec, log *slog.Logger, lines *allowance) (*process, error) {
	env := environ(os.Environ(), spec.Env, runtime.GOOS == "windows")
	path, err := findCommand(spec.Command, spec.Dir, env)
	if err != nil {
		return nil, err
	}
	if spec.Dir != "" {
		if fi, err := os.Stat(spec.Dir); err != nil || !fi.IsDir() {
			return nil, fmt.Errorf("cwd %q is not a directory (create it or correct cwd)", spec.Dir)
		}
	}
	p := &process{
		errs:     &stderrLog{log: log, allowance: lines},
		errsRead: make(chan struct{}),
		stated:   make(chan struct{}),
		exited:   make(chan struct{}),
		released: make(chan struct{}),
	}
	p.errs.ended = p.exited
	cmd := &exec.Cmd{
		Path:        path,
		Args:        append([]string{spec.Command}, spec.Args...),
		Env:         env,
		Dir:         spec.Dir,
		SysProcAttr: sysProcAttr(),
	}
	theirs, err := p.pipes(cmd)
	if err == nil {
		started := make(chan error)
		p.wg.Go(func() { p.own(cmd, started) })
		err = <-started
	}
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
			f.Close() // a nil *os.File is fine
		}
		p.wg.Wait()
		return nil, fmt.Errorf("command %q did not start: %w", spec.Command, cause(err))
	}
	p.wg.Go(func() {
		defer p.stderr.Close()
		defer close(p.errsRead)
		p.errs.copy(&output{file: p.stderr})
	})
	return p, nil
}

// pipes makes the three pipes and returns the process's ends, which are ours
// to close after the start.
func (p *process) pipes(cmd *exec.Cmd) (theirs []*os.File, err error) {
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

// own starts the process, waits for it and reaps it, all on one OS thread: on
// Linux the parent-death signal comes when the thread that forked ends, and a
// thread that another goroutine had locked might end before us. Waiting blocks
// a thread anyway, so this costs none.
func (p *process) own(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := p.group.start(cmd, p.errs.log)
	if err != nil {
		started <- err
		return
	}
	p.pid = pid
	started <- nil
	p.group.wait(cmd, func(state string) {
		p.state = state
		close(p.stated)
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

// exitState says how a process that was waited for has exited.
func exitState(cmd *exec.Cmd, err error) string {
	if err != nil && cmd.ProcessState == nil {
		return err.Error()
	}
	return cmd.ProcessState.String()
}

// output is our end of a pipe that a process writes to. It ends with the
// process, after what that has left in the pipe, also if another process holds
// the pipe open: then there would be no end of it, and callers would wait.
type output struct {
	file *os.File
	rest int // bytes read since the process has ended
}

func (o *output) Close() error { return o.file.Close() }

// maxRest bounds, in bytes, what is read after the end of a process, for
// whoever still writes. No pipe holds more, unless the system was told so.
const maxRest = 1 << 20

func (o *output) Read(b []byte) (n int, err error) {
	n, err = o.file.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if o.rest < maxRest { // own has set the deadline: the process has ended
		n, _ = readNow(o.file, b[:min(len(b), maxRest-o.rest)])
		o.rest += n
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// describe says why the output ended.
func (p *process) describe(err error) string {
	t := time.NewTimer(exitWait)
	defer t.Stop()
	select {
	case <-p.stated:
		return "its process ended: " + p.state + " (what it wrote to stderr is in the log)"
	case <-t.C:
	}
	if errors.Is(err, io.EOF) {
		return "it closed its output"
	}
	return fmt.Sprintf("reading from it failed: %v", err)
}

// lastLines are the last lines on stderr; if the process has ended, those
// before its end.
func (p *process) lastLines() []string {
	select {
	case <-p.stated:
	default:
		return p.errs.lines()
	}
	t := time.NewTimer(exitWait)
	defer t.Stop()
	select {
	case <-p.errsRead:
	case <-t.C: // what it left behind is still being ended
	}
	return p.errs.lines()
}

// shutDown ends the process in the order of the specification, with at most
// grace between the steps, or none once kill is closed. When it returns,
// nothing is left: no process of the group (on Linux, no descendant at all), no
// goroutine, no open pipe.
func (p *process) shutDown(conn *Conn, grace time.Duration, kill <-chan struct{}) {
	conn.closeWrite()
	for _, step := range []func(){p.group.terminate, p.group.kill} {
		if p.wait(grace, kill) {
			break
		}
		step()
	}
	<-p.exited
	<-conn.Done() // after what the process still had to say
	conn.Close()
	close(p.released)
	p.wg.Wait()
}

func (p *process) wait(grace time.Duration, kill <-chan struct{}) bool {
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
