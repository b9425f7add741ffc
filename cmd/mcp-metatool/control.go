package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// A server that runs listens on a Unix domain socket, PID.sock in run/ below
// the directory of its store, which only the user may enter. A command writes
// one line of JSON, a controlAsk, and reads one, a controlAnswer. Where the path
// is too long for a socket, that is elsewhere, and PID.path says where.

const (
	controlDir     = "run"
	socketSuffix   = ".sock"
	pointerSuffix  = ".path"
	controlLock    = "lock" // held by whoever adds or removes one of those
	maxSocketPath  = 100    // bytes; the least that a system takes is 103
	maxControl     = 1 << 20
	controlPatient = 5 * time.Second  // for the line of a command, and for the lock
	reloadPatient  = 30 * time.Second // for the answer
)

// controlAsk asks a server to read its configuration again.
type controlAsk struct {
	// Config is the absolute path of the file that the server must have for
	// that; "": any.
	Config string `json:"config,omitempty"`
}

// controlAnswer is what a server says.
type controlAnswer struct {
	PID    int           `json:"pid"`
	Config string        `json:"config"`           // the file that it has; "" for none
	Reload *reloadReport `json:"reload,omitempty"` // nil: it has another file
}

// reloadReport is what became of a reload. All of it is for people, and masked.
type reloadReport struct {
	Changes  []string `json:"changes"`
	Warnings []string `json:"warnings"`
	Problems []string `json:"problems"` // why nothing has changed; none if it went well
}

// control is the socket of a server.
type control struct {
	net.Listener
	remove []string // when it is closed
}

// listenControl opens a socket for commands that look for servers of the store
// in dir.
func listenControl(dir string) (*control, error) {
	run := filepath.Join(dir, controlDir)
	if err := errors.Join(os.MkdirAll(run, 0o700), os.Chmod(run, 0o700)); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	unlock, err := lockControl(run)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	defer unlock()
	sweepControl(run)
	name := fmt.Sprint(os.Getpid())
	for n := 2; exists(filepath.Join(run, name+socketSuffix)) || exists(filepath.Join(run, name+pointerSuffix)); n++ {
		name = fmt.Sprintf("%d-%d", os.Getpid(), n) // of a process that sees other ids than we do
	}
	path := filepath.Join(run, name+socketSuffix)
	if len(path) > maxSocketPath {
		return listenElsewhere(filepath.Join(run, name+pointerSuffix))
	}
	return listenAt(path)
}

func listenAt(path string, remove ...string) (*control, error) {
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &control{ln, remove}, nil
}

// listenElsewhere opens a socket in the directory for temporary files, and
// writes where into a file.
func listenElsewhere(pointer string) (*control, error) {
	dir, err := os.MkdirTemp("", "mcp-metatool-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	path := filepath.Join(dir, "s")
	c, err := listenAt(path, pointer, dir)
	if err == nil {
		if err = os.WriteFile(pointer, []byte(path), 0o600); err != nil {
			c.Close()
		}
	}
	if err != nil {
		os.Remove(dir)
		return nil, err
	}
	return c, nil
}

// serve answers commands until ctx ends, one after the other.
func (c *control) serve(ctx context.Context, answer func(controlAsk) controlAnswer) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer func() {
		if stop() {
			c.Close()
		}
		for _, name := range c.remove {
			os.Remove(name)
		}
	}()
	for {
		conn, err := c.Accept()
		if err != nil {
			return // closed, or of no use any more
		}
		answerControl(ctx, conn, answer)
	}
}

func answerControl(ctx context.Context, conn net.Conn, answer func(controlAsk) controlAnswer) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		stop()
		conn.Close()
	}()
	if conn.SetDeadline(time.Now().Add(controlPatient)) != nil {
		return
	}
	var ask controlAsk
	if json.NewDecoder(io.LimitReader(conn, maxControl)).Decode(&ask) != nil {
		return // somebody looked whether we are here
	}
	a := answer(ask)
	if conn.SetDeadline(time.Now().Add(controlPatient)) == nil {
		_ = json.NewEncoder(conn).Encode(a) // whoever asked may be gone
	}
}

// lockControl keeps others from adding and removing sockets in run.
func lockControl(run string) (unlock func(), err error) {
	l := regular.NewLock(filepath.Join(run, controlLock))
	ctx, cancel := context.WithTimeout(context.Background(), controlPatient)
	defer cancel()
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("%s cannot be locked: %w", l.Path(), err)
	}
	return func() { l.Close() }, nil
}

// sweepControl removes what servers left behind that were killed. The caller
// has the lock, so that none of the sockets is just being made.
func sweepControl(run string) {
	for _, path := range controlSockets(run) {
		conn, err := dialControl(path)
		if err == nil {
			conn.Close()
		} else if nobodyThere(err) {
			if where, err := pointed(path); err == nil && where != path {
				os.Remove(where)
				os.Remove(filepath.Dir(where)) // made for it alone; else it is not empty
			}
			os.Remove(path)
		}
	}
}

// controlSockets are the files in run that lead to servers.
func controlSockets(run string) []string {
	entries, err := os.ReadDir(run)
	if err != nil {
		return nil // not there: no server has run yet
	}
	var paths []string
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, socketSuffix) || strings.HasSuffix(name, pointerSuffix) {
			paths = append(paths, filepath.Join(run, name))
		}
	}
	return paths
}

// maxPointer is the size of the largest file that points to a socket, in bytes.
const maxPointer = 4 << 10

// pointed is the socket that a file stands for: itself, or where it points to.
func pointed(path string) (string, error) {
	if !strings.HasSuffix(path, pointerSuffix) {
		return path, nil
	}
	where, err := regular.Read(context.Background(), path, maxPointer)
	return string(where), err
}

func dialControl(path string) (net.Conn, error) {
	socket, err := pointed(path)
	if err != nil {
		return nil, err
	}
	return net.DialTimeout("unix", socket, controlPatient)
}

// nobodyThere tells whether the error of a dial means that the server has
// ended.
func nobodyThere(err error) bool {
	const wsaRefused = syscall.Errno(10061) // Windows has another number than package syscall
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused) || errors.Is(err, fs.ErrNotExist)
}

// askServer asks the server behind a path.
func askServer(ctx context.Context, path string, ask controlAsk) (answer controlAnswer, err error) {
	conn, err := dialControl(path)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err = conn.SetDeadline(time.Now().Add(reloadPatient)); err == nil {
		err = json.NewEncoder(conn).Encode(ask)
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(conn, maxControl)).Decode(&answer)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
