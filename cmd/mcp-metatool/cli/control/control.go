// Package control is the socket on which a running server takes commands: reload, drain, and the
// link of its page. Listen opens the socket of a server; Folder finds the sockets of a store.
package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// A running server listens on a Unix domain socket, PID.sock in run/ below the directory of its
// store. Only the user may access the socket. A command writes a line of JSON, a Request, and reads
// a line of JSON, a Response.

const (
	maxControl    = 1 << 20
	timeout       = 5 * time.Second  // the longest wait for the request, and for the lock
	reloadTimeout = 30 * time.Second // the longest wait for the response
)

// Request asks a server to reload its configuration, for its page, or to drain.
type Request struct {
	// Config is the absolute path of the configuration file; a server with another
	// file does not reload. "": any file.
	Config string `json:"config,omitempty"`
	// Page asks for the link of the page instead.
	Page bool `json:"page,omitempty"`
	// Open asks for a single-use link of the page, for a browser.
	Open bool `json:"open,omitempty"`
	// Refused asks why the last reload was refused instead.
	Refused bool `json:"refused,omitempty"`
	// Drain asks the server to drain instead, and End to end after draining.
	Drain bool `json:"drain,omitempty"`
	End   bool `json:"end,omitempty"`
}

// Response is the response of a server.
type Response struct {
	PID    int           `json:"pid"`
	Config string        `json:"config"`           // the configuration file of the server; "" for none
	Reload *ReloadReport `json:"reload,omitempty"` // nil: the server has another configuration file
	Page   string        `json:"page,omitempty"`   // the link of the page with its token; "": no page
	Open   string        `json:"open,omitempty"`   // a single-use link
	Drain  *DrainReport  `json:"drain,omitempty"`
}

// DrainReport says how far the draining of a server is.
type DrainReport struct {
	InFleet bool  `json:"inFleet"` // false: the server does not drain
	Going   int64 `json:"going"`   // requests and runs
	Settled bool  `json:"settled"` // no new sessions begin
}

// ReloadReport is the outcome of a reload. All texts are for people, and masked.
type ReloadReport struct {
	Changes  []string `json:"changes"`
	Warnings []string `json:"warnings"`
	Problems []string `json:"problems"` // why nothing has changed; none if the reload succeeded
}

// Socket is the control socket of a server.
type Socket struct {
	net.Listener
	run  *Folder
	name string
}

// Listen opens a control socket, where commands find the server by the directory of its store.
func Listen(dir string) (*Socket, error) {
	run, err := OpenFolder(dir, true)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	c, err := listenIn(run)
	if err != nil {
		run.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return c, nil
}

func listenIn(run *Folder) (*Socket, error) {
	unlock, err := run.Lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	run.Sweep()
	name := fmt.Sprint(os.Getpid()) + socketSuffix
	for n := 2; run.exists(name); n++ {
		name = fmt.Sprintf("%d-%d%s", os.Getpid(), n, socketSuffix) // of a process in another pid namespace
	}
	ln, err := run.listen(name)
	if err != nil {
		return nil, err
	}
	return &Socket{ln, run, name}, nil
}

// Serve answers commands in turn until ctx ends.
func (c *Socket) Serve(ctx context.Context, answer func(Request) Response) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer func() {
		if stop() {
			c.Close()
		}
		c.run.remove(c.name)
		c.run.Close()
	}()
	for {
		conn, err := c.Accept()
		if err != nil {
			return // closed or broken
		}
		answerCommand(ctx, conn, answer)
	}
}

func answerCommand(ctx context.Context, conn net.Conn, answer func(Request) Response) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		stop()
		conn.Close()
	}()
	if conn.SetDeadline(time.Now().Add(timeout)) != nil {
		return
	}
	var ask Request
	if json.NewDecoder(io.LimitReader(conn, maxControl)).Decode(&ask) != nil {
		return // another command checked whether this server runs
	}
	a := answer(ask)
	if conn.SetDeadline(time.Now().Add(timeout)) == nil {
		_ = json.NewEncoder(conn).Encode(a) // the command may have ended
	}
}

// Lock keeps other processes from adding and removing sockets.
func (d *Folder) Lock() (unlock func(), err error) {
	if info, err := d.root.Lstat(lockName); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (remove it)", filepath.Join(d.Path, lockName))
	}
	l := regular.NewLock(filepath.Join(d.Path, lockName))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("%s cannot be locked: %w", l.Path(), err)
	}
	return func() { l.Close() }, nil
}

// Ask sends a request to the server of a socket.
func (d *Folder) Ask(ctx context.Context, name string, ask Request) (answer Response, err error) {
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

// Write prints the response of a server.
func (a Response) Write(w io.Writer) error {
	name := a.Config
	if name == "" {
		name = "no configuration file"
	}
	what, lines := "reloaded", a.Reload.Changes
	switch {
	case len(a.Reload.Problems) > 0:
		what, lines = "not reloaded", a.Reload.Problems
	case len(lines) == 0:
		what = "nothing has changed"
	}
	_, err := fmt.Fprintf(w, "server %d, %s: %s\n", a.PID, display.Text(name), what)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\n", display.Text(line))
	}
	for _, line := range a.Reload.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", display.Text(line))
	}
	return err
}
