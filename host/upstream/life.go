package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// This file is the whole state machine: run is its one goroutine, and enter
// the one place where a state changes.

// maxStatusErr bounds Status.Err, in bytes.
const maxStatusErr = 2 << 10

// run is the life of the upstream.
func (u *Upstream) run(ctx context.Context) {
	defer close(u.done)
	p, err := startProcess(u.spec, u.log)
	if err != nil {
		u.failed(err, nil)
		return
	}
	conn := NewConn(p.stdout, p.stdin, ConnOptions{
		Name:           u.spec.Name,
		MaxMessage:     u.spec.MaxMessage,
		OnNotification: u.notification,
		OnGarbage:      u.garbled,
		Log:            u.opts.Log,
		describe:       p.describe,
	})
	u.setPid(p.pid)
	err = u.serve(ctx, conn)
	if ctx.Err() == nil {
		u.failed(err, p) // before the shutdown, which may take its time
	}
	p.shutDown(conn, u.grace, u.kill)
	u.setPid(0)
}

// serve brings the connection up and looks after it until it ends or ctx does.
func (u *Upstream) serve(ctx context.Context, conn *Conn) error {
	hasTools, err := u.handshake(ctx, conn)
	if err != nil {
		return err
	}
	if err := u.list(ctx, conn, hasTools); err != nil {
		return err
	}
	u.ready(conn)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-conn.Done():
			return conn.Err()
		case <-conn.out.done:
			return conn.unsent(ctx, errUnsent)
		case <-u.relist:
			if err := u.list(ctx, conn, true); err != nil && ctx.Err() == nil && conn.Err() == nil {
				u.log.Warn("listing the tools again failed; the old list stays", "err", err)
				u.setErr(err.Error())
			}
		}
	}
}

func (u *Upstream) handshake(ctx context.Context, conn *Conn) (hasTools bool, err error) {
	ctx, cancel := u.deadline(ctx, mcp.MethodInitialize)
	defer cancel()
	res, err := conn.Initialize(ctx, ClientParams{Name: u.opts.ClientName, Version: u.opts.ClientVersion})
	if err != nil {
		return false, err
	}
	u.mu.Lock()
	u.status.ServerName, u.status.ServerVersion = clip(res.ServerName), clip(res.ServerVersion)
	u.status.ProtocolVersion = res.ProtocolVersion
	u.mu.Unlock()
	_, hasTools = wire.Get(res.Capabilities, "tools")
	return hasTools, nil
}

// list lists the tools and hands them out.
func (u *Upstream) list(ctx context.Context, conn *Conn, hasTools bool) error {
	tools := [][]byte{}
	if hasTools {
		ctx, cancel := u.deadline(ctx, mcp.MethodToolsList)
		defer cancel()
		var err error
		if tools, err = listTools(ctx, conn, u.log); err != nil {
			return err
		}
	}
	u.mu.Lock()
	u.status.Tools = len(tools)
	u.mu.Unlock()
	if u.opts.OnTools != nil {
		u.opts.OnTools(tools)
	}
	return nil
}

func (u *Upstream) deadline(ctx context.Context, method mcp.MCPMethod) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, u.spec.Timeout,
		&TimeoutError{Upstream: u.spec.Name, Method: string(method), After: u.spec.Timeout})
}

// notification runs on the read loop. A change of the list while one is being
// read asks for one more listing after it, however often it comes.
func (u *Upstream) notification(method string, params []byte) {
	if method == mcp.MethodNotificationToolsListChanged {
		select {
		case u.relist <- struct{}{}:
		default: // one is wanted already, and will see this change as well
		}
	}
	if u.opts.OnNotification != nil {
		u.opts.OnNotification(method, params)
	}
}

// garbled keeps the first line that was no message, for Status.Err.
func (u *Upstream) garbled(_ string, raw []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.garbage == "" {
		u.garbage = clip(string(raw))
	}
}

func (u *Upstream) ready(conn *Conn) {
	u.mu.Lock()
	u.conn = conn
	u.mu.Unlock()
	if !u.enter(Ready, nil) {
		return
	}
	s := u.Status()
	u.log.Info("upstream is ready", "server", s.ServerName, "version", s.ServerVersion,
		"protocol", s.ProtocolVersion, "tools", s.Tools, "after", s.StartTime.Round(time.Millisecond), "pid", s.Pid)
}

// failed ends the upstream for good because of err. p is its process, if there
// was one.
func (u *Upstream) failed(err error, p *process) {
	var down *DownError
	if !errors.As(err, &down) {
		down = &DownError{Upstream: u.spec.Name, Reason: reason(err), Err: err}
	}
	text := down.Error()
	u.mu.Lock()
	if u.garbage != "" {
		text += fmt.Sprintf("; it wrote what is no JSON-RPC message, first %q", u.garbage)
	}
	u.mu.Unlock()
	if p != nil {
		if last := p.lastLines(); len(last) > 0 {
			text += "; its last lines on stderr:\n" + strings.Join(last, "\n")
		}
	}
	u.setErr(text)
	if u.Status().State != Closed {
		u.log.Error("upstream failed", "err", text) // before callers learn it
	}
	u.enter(Failed, down)
}

// reason is what a DownError says beside the name of the upstream.
func reason(err error) string {
	var timeout *TimeoutError
	var answer *AnswerError
	switch {
	case errors.As(err, &timeout):
		return fmt.Sprintf("start failed: no answer to %s within %v (raise its timeout)", timeout.Method, timeout.After)
	case errors.As(err, &answer):
		return fmt.Sprintf("start failed: answer to %s: %v", answer.Method, answer.Err)
	}
	return err.Error()
}

func (u *Upstream) closing() {
	u.enter(Closed, &DownError{Upstream: u.spec.Name, Reason: "closed", Err: wire.ErrClosed})
}

// enter changes the state; down is why calls fail in it. It returns false, and
// changes nothing, where the state has no such successor: nothing follows
// Closed, and only Closed follows Failed.
func (u *Upstream) enter(s State, down error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.status.State == Closed || u.status.State == Failed && s != Closed {
		return false
	}
	if u.status.State == Starting {
		close(u.started)
	}
	u.status.State, u.status.Since, u.down = s, time.Now(), down
	if s == Ready {
		u.status.StartTime = u.status.Since.Sub(u.start)
	}
	return true
}

func (u *Upstream) setErr(text string) {
	if len(text) > maxStatusErr {
		text = strings.ToValidUTF8(text[:maxStatusErr-len("...")], "") + "..."
	}
	u.mu.Lock()
	u.status.Err = text
	u.mu.Unlock()
}

func (u *Upstream) setPid(pid int) {
	u.mu.Lock()
	u.status.Pid = pid
	u.mu.Unlock()
}
