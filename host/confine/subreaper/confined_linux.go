package subreaper

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/mcp-metatool/mcp-metatool/host/confine/restrict"
)

// refusal says why a server could not be confined.
type refusal string

func (r refusal) Error() string { return string(r) }

// startConfined starts a process that gives up rights and then becomes the server.
func startConfined(command Command, group *cgroup, sys *syscall.SysProcAttr) (pid int, err error) {
	profile, ok := restrict.Parse(command.Profile)
	if !ok {
		return 0, refusal("its profile is damaged")
	}
	group.limit(profile)
	if profile.Processes > 0 && os.Geteuid() == 0 { // RLIMIT_NPROC does not apply to root
		return 0, refusal("its processes cannot be limited: no control group with the controller pids could be made for it")
	}
	var order, outcome [2]int // pipes: the profile to the process, a failure back
	if err := syscall.Pipe2(order[:], syscall.O_CLOEXEC); err != nil {
		return 0, err
	}
	if err := syscall.Pipe2(outcome[:], syscall.O_CLOEXEC); err != nil {
		syscall.Close(order[0])
		syscall.Close(order[1])
		return 0, err
	}
	pid, err = syscall.ForkExec("/proc/self/exe", append([]string{restrict.Name, command.Path}, command.Args...), &syscall.ProcAttr{
		Dir: command.Dir, Env: command.Env, Sys: sys,
		Files: []uintptr{0, 1, 2, uintptr(order[0]), uintptr(outcome[1])},
	})
	syscall.Close(order[0])
	syscall.Close(outcome[1])
	if err == nil {
		write(order[1], []byte(profile.Text()))
	}
	syscall.Close(order[1])
	failure := text(outcome[0])
	syscall.Close(outcome[0])
	if err != nil || failure == "" {
		return pid, err
	}
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	return 0, refusal(failure)
}

// text reads fd to the end.
func text(fd int) string {
	var b [1024]byte
	n := 0
	for n < len(b) {
		m, err := syscall.Read(fd, b[n:])
		if err == syscall.EINTR {
			continue
		}
		if m <= 0 {
			break
		}
		n += m
	}
	return string(b[:n])
}

// write writes all of b, unless the reader has ended.
func write(fd int, b []byte) {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		b = b[n:]
	}
}

// limit lets the group enforce limits of a profile, and removes these limits from the profile.
func (c *cgroup) limit(p *restrict.Profile) {
	if c == nil {
		return
	}
	if p.Memory > 0 && c.set("memory.max", p.Memory) {
		_ = c.set("memory.swap.max", 0) // the machine may have no swap
		p.Memory = 0
	}
	if p.Processes > 0 && c.set("pids.max", p.Processes) {
		p.Processes = 0
	}
}

// set writes a number to a file of the group, and reports success.
func (c *cgroup) set(name string, value uint64) bool {
	fd, err := syscall.Open(c.dir+"/"+name, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, strconv.AppendUint(nil, value, 10))
	return err == nil
}

// removeTemp removes the folder for temporary files of the server. No process is left to change the
// folder meanwhile, and neither os.RemoveAll nor the walk follows links.
func removeTemp(dir string) {
	if dir == "" || os.RemoveAll(dir) == nil {
		return
	}
	// The server may have made folders that not even we may enter.
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
