package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// A server that runs listens on a Unix domain socket, PID.sock in run/ below
// the directory of its store, which only the user may enter. A command writes
// one line of JSON, a controlAsk, and reads one, a controlAnswer.

const (
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
	run  *runDir
	name string
}

// listenControl opens a socket for commands that look for servers of the store
// in dir.
func listenControl(dir string) (*control, error) {
	run, err := openRunDir(dir, true)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	c, err := listenIn(run)
	if err != nil {
		run.close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return c, nil
}

func listenIn(run *runDir) (*control, error) {
	unlock, err := run.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	run.sweep()
	name := fmt.Sprint(os.Getpid()) + socketSuffix
	for n := 2; run.exists(name); n++ {
		name = fmt.Sprintf("%d-%d%s", os.Getpid(), n, socketSuffix) // of a process that sees other ids than we do
	}
	ln, err := run.listen(name)
	if err != nil {
		return nil, err
	}
	return &control{ln, run, name}, nil
}

// serve answers commands until ctx ends, one after the other.
func (c *control) serve(ctx context.Context, answer func(controlAsk) controlAnswer) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer func() {
		if stop() {
			c.Close()
		}
		c.run.remove(c.name)
		c.run.close()
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

// lock keeps others from adding and removing sockets.
func (d *runDir) lock() (unlock func(), err error) {
	if info, err := d.root.Lstat(controlLock); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (remove it)", filepath.Join(d.path, controlLock))
	}
	l := regular.NewLock(filepath.Join(d.path, controlLock))
	ctx, cancel := context.WithTimeout(context.Background(), controlPatient)
	defer cancel()
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("%s cannot be locked: %w", l.Path(), err)
	}
	return func() { l.Close() }, nil
}

// ask asks the server behind a socket.
func (d *runDir) ask(ctx context.Context, name string, ask controlAsk) (answer controlAnswer, err error) {
	conn, err := d.dial(name)
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
