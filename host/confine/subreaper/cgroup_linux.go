package subreaper

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// cgroup is a control group (version 2) for the server alone, below our own group. The kernel kills
// all processes of the group at once, including processes that start others faster than they can be
// found, and processes of another user. A nil cgroup has no processes.
type cgroup struct {
	dir string
	fd  int // of dir, for the start of the server
}

// newCgroup makes a group if our own group was delegated to us, which is unusual, and otherwise
// returns nil.
func newCgroup() *cgroup {
	own := ownCgroup()
	if own == "" {
		return nil
	}
	c := &cgroup{dir: own + "/mcp-metatool-" + strconv.Itoa(os.Getpid())}
	if syscall.Mkdir(c.dir, 0o755) != nil {
		return nil
	}
	fd, err := syscall.Open(c.dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil || syscall.Access(c.dir+"/cgroup.kill", 2) != nil { // cgroup.kill exists since Linux 5.14
		c.remove()
		return nil
	}
	c.fd = fd
	return c
}

// ownCgroup returns the directory of our own group if the group was delegated to us, or "": the
// group belongs to the user, systemd has marked the group as delegated, or the group is the top of
// a container. Groups managed by another program are left alone.
func ownCgroup() string {
	path, ok := cgroupPath(content("/proc/self/cgroup"))
	if !ok {
		return ""
	}
	dir := strings.TrimSuffix(cgroupMount(content("/proc/self/mountinfo"))+path, "/")
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) != nil || syscall.Access(dir+"/cgroup.type", 0) != nil { // the root group of the machine has no type
		return ""
	}
	if uid := os.Geteuid(); path == "/" || uid != 0 && int(st.Uid) == uid || delegated(dir) {
		return dir
	}
	return ""
}

// Controls reports whether the group of a server could limit the server's memory and processes.
func Controls() (memory, processes bool) {
	own := ownCgroup()
	if own == "" {
		return false, false
	}
	controllers := strings.Fields(content(own + "/cgroup.subtree_control"))
	return slices.Contains(controllers, "memory"), slices.Contains(controllers, "pids")
}

// delegated reports whether systemd has marked a group as delegated.
func delegated(dir string) bool {
	var b [8]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := syscall.Getxattr(dir, name, b[:]); err == nil && string(b[:n]) == "1" {
			return true
		}
	}
	return false
}

// cgroupPath returns the path of our group, given the content of /proc/self/cgroup
// (cgroups(7)).
func cgroupPath(text string) (string, bool) {
	for line := range strings.SplitSeq(text, "\n") {
		if path, ok := strings.CutPrefix(line, "0::/"); ok {
			return "/" + path, true
		}
	}
	return "", false
}

// cgroupMount returns where the whole tree of groups is mounted, "" for nowhere, given
// the content of /proc/self/mountinfo (proc_pid_mountinfo(5)).
func cgroupMount(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		mount, filesystem, _ := strings.Cut(line, " - ")
		if f := strings.Fields(mount); strings.HasPrefix(filesystem, "cgroup2 ") && len(f) > 4 && f[3] == "/" {
			return f[4]
		}
	}
	return ""
}

// content returns the first 64 KiB of a kernel file, "" for an unreadable file.
func content(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 64<<10)
	n := 0
	for n < len(b) {
		m, err := f.Read(b[n:])
		if n += m; err != nil {
			break
		}
	}
	return string(b[:n])
}

// kill kills all processes in the group and reports whether the group has any. The processes end a
// little later.
func (c *cgroup) kill() (populated bool) {
	if c == nil {
		return false
	}
	if fd, err := syscall.Open(c.dir+"/cgroup.kill", syscall.O_WRONLY|syscall.O_CLOEXEC, 0); err == nil {
		_, _ = syscall.Write(fd, []byte("1"))
		syscall.Close(fd)
	}
	return strings.Contains(content(c.dir+"/cgroup.events"), "populated 1")
}

// remove removes the group and the groups made by the group's processes, except groups with
// processes.
func (c *cgroup) remove() {
	if c != nil {
		removeGroups(c.dir, 8)
	}
}

func removeGroups(dir string, depth int) {
	if f, err := os.Open(dir); err == nil && depth > 0 {
		entries, _ := f.ReadDir(-1)
		f.Close()
		for _, e := range entries {
			if e.IsDir() {
				removeGroups(dir+"/"+e.Name(), depth-1)
			}
		}
	}
	_ = syscall.Rmdir(dir)
}
