package process

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is the job object with a server and the server's descendants. The system ends them when the
// last handle of the job is closed, also when we are killed. The server is assigned to the job
// right after the start; a child started before the assignment is not in the job.
type group struct {
	mu      sync.Mutex
	job     windows.Handle // 0: none could be made, and only the server itself is killed
	process windows.Handle
}

// sysProcAttr makes the server ignore our Ctrl-C, and hides the server's window.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// start starts the process and puts the process into a job.
func (g *group) start(cmd *exec.Cmd, _ plan, _ *slog.Logger) (pid int, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	g.assign(cmd.Process.Pid, windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)
	return cmd.Process.Pid, nil
}

// assign puts a process into a job with these limits.
func (g *group) assign(pid int, limits uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	access := uint32(windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE)
	process, err := windows.OpenProcess(access, false, uint32(pid))
	if err != nil {
		return
	}
	g.process = process
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = limits
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		err = windows.AssignProcessToJobObject(job, process)
	}
	if err != nil {
		windows.CloseHandle(job)
		return
	}
	g.job = job
}

// terminate does nothing: Windows has no signal to ask any process to end. The server has seen the
// end of the input.
func (g *group) terminate() {}

func (g *group) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.job != 0:
		_ = windows.TerminateJobObject(g.job, 1)
	case g.process != 0:
		_ = windows.TerminateProcess(g.process, 1)
	}
}

// wait waits for the process, ends the rest of the job, and calls exited with the exit status of
// the process.
func (g *group) wait(cmd *exec.Cmd, exited func(state string)) {
	err := cmd.Wait()
	g.kill()
	g.close()
	exited(exitState(cmd, err))
}

// close forgets the job and the process.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range []*windows.Handle{&g.job, &g.process} {
		if *h != 0 {
			windows.CloseHandle(*h)
			*h = 0
		}
	}
}

// readNow is not needed: pipes have no deadlines here.
func readNow(*os.File, []byte) (int, error) { return 0, io.EOF }
