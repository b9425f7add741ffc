package trace

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
)

// call is a system call of a thread.
type call struct {
	tid    int
	number int
	args   [6]uint64

	name    string
	program string
	paths   []string // named in the arguments
	address string   // of a socket
	family  int
	flags   uint64            // how a file is opened
	sockets map[string]string // see tracer
}

// shape locates the paths of a system call: each is the argument of a folder's descriptor, or -1,
// and the argument of the name.
type shape struct {
	kind  Kind
	paths [][2]int
}

// shapes are the system calls with paths in the arguments, except the system calls that open files.
var shapes = map[string]shape{
	"execve": {ExecuteFile, [][2]int{{-1, 0}}}, "execveat": {ExecuteFile, [][2]int{{0, 1}}},
	"unlink": {WriteFile, [][2]int{{-1, 0}}}, "unlinkat": {WriteFile, [][2]int{{0, 1}}},
	"mkdir": {WriteFile, [][2]int{{-1, 0}}}, "mkdirat": {WriteFile, [][2]int{{0, 1}}}, "rmdir": {WriteFile, [][2]int{{-1, 0}}},
	"rename": {WriteFile, [][2]int{{-1, 0}, {-1, 1}}}, "renameat": {WriteFile, [][2]int{{0, 1}, {2, 3}}},
	"renameat2": {WriteFile, [][2]int{{0, 1}, {2, 3}}},
	"link":      {WriteFile, [][2]int{{-1, 0}, {-1, 1}}}, "linkat": {WriteFile, [][2]int{{0, 1}, {2, 3}}},
	"symlink": {WriteFile, [][2]int{{-1, 1}}}, "symlinkat": {WriteFile, [][2]int{{1, 2}}},
	"truncate": {WriteFile, [][2]int{{-1, 0}}}, "mknod": {WriteFile, [][2]int{{-1, 0}}}, "mknodat": {WriteFile, [][2]int{{0, 1}}},
}

// opens are the system calls that open files, with the arguments of the folder, the name, and the
// flags.
var opens = map[string][3]int{"open": {-1, 0, 1}, "openat": {0, 1, 2}, "openat2": {0, 1, -1}, "creat": {-1, 0, -2}}

// entry reads the memory that the arguments point to. The memory may have changed after the call.
func (c *call) entry() {
	c.name = confine.SyscallName(c.number)
	if at, ok := opens[c.name]; ok {
		c.path(at[0], at[1])
		switch {
		case at[2] >= 0:
			c.flags = c.args[at[2]]
		case at[2] == -2:
			c.flags = unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC
		default: // struct open_how
			if b := memory(c.tid, c.args[2], 8); len(b) == 8 {
				c.flags = binary.NativeEndian.Uint64(b)
			}
		}
	}
	for _, at := range shapes[c.name].paths {
		c.path(at[0], at[1])
	}
	switch c.name {
	case "connect", "bind":
		c.family, c.address = address(c.tid, c.args[1], c.args[2])
	case "sendto":
		if c.args[4] != 0 {
			c.family, c.address = address(c.tid, c.args[4], c.args[5])
		}
	}
	if c.name == "execve" || c.name == "execveat" {
		c.program = programOf(c.tid) // after the call the program has another name
	}
}

func (c *call) path(dir, name int) {
	folder := uint64(0xFFFFFF9C) // AT_FDCWD
	if dir >= 0 {
		folder = c.args[dir]
	}
	if s := text(c.tid, c.args[name]); s != "" {
		c.paths = append(c.paths, absolute(c.tid, folder, s))
	}
}

// exit returns the events of the call: an action, a refusal, or none worth recording.
func (c *call) exit(value int64, errno syscall.Errno) []Event {
	refused := errno == unix.EACCES || errno == unix.EPERM
	event := Event{Call: c.name, Program: c.program}
	if refused {
		event.Errno = unix.ErrnoName(errno)
	} else if errno != 0 && !(errno == unix.EINPROGRESS && c.name == "connect") {
		return c.limited(event, errno)
	}
	var events []Event
	add := func(kind Kind, object string) {
		e := event
		e.Kind, e.Object = kind, object
		if e.Program == "" {
			e.Program = programOf(c.tid)
		}
		if info, err := os.Stat(object); err == nil && (kind == ReadFile || kind == WriteFile) {
			e.Folder = info.IsDir()
		}
		events = append(events, e)
	}
	_, isOpen := opens[c.name]
	switch shape, isPath := shapes[c.name]; {
	case isOpen && len(c.paths) == 1:
		c.opened(value, refused, add)
	case isPath:
		for _, path := range c.paths {
			path = resolvedParent(path)
			if real, err := filepath.EvalSymlinks(path); err == nil && shape.kind == ExecuteFile {
				path = real
			}
			add(shape.kind, path)
		}
	case c.name == "connect" || c.name == "sendto":
		if c.address != "" && (c.family != unix.AF_INET && c.family != unix.AF_INET6 || port(c.address) != "0") {
			add(Connect, c.transport()+" "+c.address)
		}
	case c.name == "bind":
		if c.family == unix.AF_INET || c.family == unix.AF_INET6 || c.family == unix.AF_UNIX {
			add(Listen, c.transport()+" "+c.address)
		}
	case c.name == "socket":
		name := socketName(int(int32(c.args[0])), int(int32(c.args[1])))
		if errno == 0 {
			c.sockets[descriptor(c.tid, value)] = name
		}
		add(Socket, name)
	case refused || confine.IsRefused(c.name) || c.name == "utimensat" && c.args[1] != 0:
		add(Call, c.name)
	}
	return events
}

// transport returns the kind of the socket in the first argument: tcp, udp, or unix.
func (c *call) transport() string {
	name := c.sockets[descriptor(c.tid, int64(int32(c.args[0])))]
	switch {
	case c.family == unix.AF_UNIX:
		return "unix"
	case strings.HasSuffix(name, " datagram"):
		return "udp"
	case strings.HasSuffix(name, " stream") || name == "":
		return "tcp"
	}
	return name
}

// opened adds the event of an opened or refused file.
func (c *call) opened(value int64, refused bool, add func(Kind, string)) {
	if c.flags&unix.O_PATH != 0 {
		return // Landlock does not mind
	}
	kind := ReadFile
	if c.flags&unix.O_ACCMODE != unix.O_RDONLY || c.flags&(unix.O_CREAT|unix.O_TRUNC) != 0 || c.flags&unix.O_TMPFILE == unix.O_TMPFILE {
		kind = WriteFile
	}
	path := resolvedParent(c.paths[0])
	if !refused {
		if path = opened(c.tid, value); path == "" {
			return
		}
	} else if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	add(kind, path)
}

// limited returns the event of a call that has failed because of a limit.
func (c *call) limited(event Event, errno syscall.Errno) []Event {
	switch {
	case errno == unix.EMFILE, errno == unix.ENOMEM && (c.name == "mmap" || c.name == "brk" || c.name == "mprotect"),
		errno == unix.EAGAIN && (c.name == "clone" || c.name == "fork" || c.name == "vfork"):
		event.Kind, event.Object, event.Errno = Call, c.name, unix.ErrnoName(errno)
		event.Program = programOf(c.tid)
		return []Event{event}
	}
	return nil
}

// resolvedParent resolves symbolic links in the folder of a path.
func resolvedParent(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// port returns the port of an address.
func port(address string) string {
	for i := len(address) - 1; i >= 0; i-- {
		if address[i] == ':' {
			return address[i+1:]
		}
	}
	return ""
}
