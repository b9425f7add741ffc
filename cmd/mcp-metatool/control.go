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

// A running server listens on a Unix domain socket, PID.sock in run/ below the
// directory of its store, which only the user may access. A command writes one line
// of JSON, a controlRequest, and reads one, a controlResponse.

const (
	maxControl     = 1 << 20
	controlTimeout = 5 * time.Second  // the longest wait for the request, and for the lock
	reloadTimeout  = 30 * time.Second // the longest wait for the response
)

// controlRequest asks a server to reload its configuration, for its page, or to drain.
type controlRequest struct {
	// Config is the absolute path of the configuration file; a server with another
	// file does not reload. "": any file.
	Config string `json:"config,omitempty"`
	// Page asks for the link of the page instead.
	Page bool `json:"page,omitempty"`
	// Open asks for a link of the page that is valid once, for a browser.
	Open bool `json:"open,omitempty"`
	// Refused asks why the last reload was refused instead.
	Refused bool `json:"refused,omitempty"`
	// Drain asks the server to drain instead, and End to end when it has.
	Drain bool `json:"drain,omitempty"`
	End   bool `json:"end,omitempty"`
}

// controlResponse is the response of a server.
type controlResponse struct {
	PID    int           `json:"pid"`
	Config string        `json:"config"`           // its configuration file; "" for none
	Reload *reloadReport `json:"reload,omitempty"` // nil: it has another configuration file
	Page   string        `json:"page,omitempty"`   // the link of the page with its token; "": there is none
	Open   string        `json:"open,omitempty"`   // a link that is valid once
	Drain  *drainReport  `json:"drain,omitempty"`
}

// drainReport says how far a server that drains is.
type drainReport struct {
	InFleet bool  `json:"inFleet"` // otherwise it does not drain
	Going   int64 `json:"going"`   // requests and runs
	Settled bool  `json:"settled"` // no new sessions begin any more
}

// reloadReport is the outcome of a reload. All of it is for people, and masked.
type reloadReport struct {
	Changes  []string `json:"changes"`
	Warnings []string `json:"warnings"`
	Problems []string `json:"problems"` // why nothing has changed; none if the reload succeeded
}

// control is the control socket of a server.
type control struct {
	net.Listener
	run  *runDir
	name string
}

// listenControl opens a control socket, where commands find the server by the
// directory of its store.
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
		name = fmt.Sprintf("%d-%d%s", os.Getpid(), n, socketSuffix) // of a process in another pid namespace
	}
	ln, err := run.listen(name)
	if err != nil {
		return nil, err
	}
	return &control{ln, run, name}, nil
}

// serve answers commands, one after the other, until ctx ends.
func (c *control) serve(ctx context.Context, answer func(controlRequest) controlResponse) {
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
			return // closed or broken
		}
		answerControl(ctx, conn, answer)
	}
}

func answerControl(ctx context.Context, conn net.Conn, answer func(controlRequest) controlResponse) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		stop()
		conn.Close()
	}()
	if conn.SetDeadline(time.Now().Add(controlTimeout)) != nil {
		return
	}
	var ask controlRequest
	if json.NewDecoder(io.LimitReader(conn, maxControl)).Decode(&ask) != nil {
		return // another command checked whether this server runs
	}
	a := answer(ask)
	if conn.SetDeadline(time.Now().Add(controlTimeout)) == nil {
		_ = json.NewEncoder(conn).Encode(a) // the command may have ended
	}
}

// lock prevents others from adding and removing sockets.
func (d *runDir) lock() (unlock func(), err error) {
	if info, err := d.root.Lstat(controlLock); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (remove it)", filepath.Join(d.path, controlLock))
	}
	l := regular.NewLock(filepath.Join(d.path, controlLock))
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("%s cannot be locked: %w", l.Path(), err)
	}
	return func() { l.Close() }, nil
}

// ask sends a request to the server of a socket.
func (d *runDir) ask(ctx context.Context, name string, ask controlRequest) (answer controlResponse, err error) {
	conn, err := d.dial(name)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err = conn.SetDeadline(time.Now().Add(reloadTimeout)); err == nil {
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
