// Package health checks whether upstreams work. The check asks each upstream for the tools and
// makes the configured probe call. The last known state of an upstream says little: a server can
// hang, or have lost a backend, while the server's process runs. Begin with Checker.
package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// The default timeouts of a Checker.
const (
	DefaultTimeout     = 5 * time.Second
	DefaultWakeTimeout = 20 * time.Second
)

// Asleep is the state of an upstream with start = "lazy" before the first start.
const Asleep servers.State = "asleep"

// Disabled is the state of an upstream disabled in the configuration.
const Disabled servers.State = "disabled"

// Connection is the part of a connection to an upstream that a check uses. A Connection is safe for
// concurrent use.
type Connection interface {
	Status() servers.Status
	// Ready starts an asleep upstream, and waits until the upstream has started. The error is the
	// reason for the upstream's failure, or the cause of ctx.
	Ready(ctx context.Context) error
	// Server returns the raw result of the last handshake; ok is false before the
	// first.
	Server() (result []byte, ok bool)
	// Call sends a request. The error is the cause of ctx if ctx ends first.
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
}

// Target is an upstream to check.
type Target struct {
	Name string
	// Connection is the connection to the upstream; nil for a disabled upstream.
	Connection Connection
	// Probe is a call that must succeed; nil means that listing the tools is enough.
	Probe *config.Probe
	// Pins returns the differences from the pinned state, in short lines, or nil.
	Pins func() []string
	// Odd returns the listed items that strict clients refuse, in short lines, or nil.
	Odd func() []string
	// Permitted returns why the tool of Probe may not be called, or nil.
	Permitted func(tool string) error
	// Wake starts an asleep upstream, which is otherwise skipped.
	Wake bool
}

// Checker checks upstreams. The zero value has the default timeouts.
type Checker struct {
	// Timeout bounds the wait for a starting upstream, and then the wait for the response to
	// tools/list. A probe has a separate timeout afterwards.
	Timeout time.Duration
	// WakeTimeout bounds the start of an asleep upstream.
	WakeTimeout time.Duration
	// Owner is passed with the requests (wire.Call.Owner). Owner receives requests of the upstream
	// during a check; nil: the requests are refused.
	Owner any
	// Mask replaces secrets in texts of servers; nil: no secrets.
	Mask func(string) string
	// Details includes Report.Details.
	Details bool
}

// Check checks all targets concurrently and returns their reports in the same order,
// once the slowest check is done.
func (c Checker) Check(ctx context.Context, targets []Target) []Report {
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.WakeTimeout <= 0 {
		c.WakeTimeout = DefaultWakeTimeout
	}
	reports := make([]Report, len(targets))
	var checks sync.WaitGroup
	for i, t := range targets {
		checks.Go(func() { reports[i] = c.check(ctx, t) })
	}
	checks.Wait()
	return reports
}

// check checks an upstream.
func (c Checker) check(ctx context.Context, t Target) Report {
	r := Report{Server: t.Name, State: Disabled, Check: Skipped}
	if t.Connection == nil {
		return r
	}
	timeout, begun := c.Timeout, time.Now()
	if t.Connection.Status().State == Asleep {
		if !t.Wake {
			c.addStatus(&r, t.Connection.Status())
			return r
		}
		timeout = c.WakeTimeout
	}
	err := c.list(ctx, t.Connection, timeout, &r)
	if err == nil && t.Probe != nil {
		r.Probe = c.probe(ctx, t.Connection, t.Probe, permit{t})
	}
	if t.Pins != nil {
		for _, line := range t.Pins() {
			r.Pins = append(r.Pins, c.excerpt(line))
		}
	}
	if t.Odd != nil {
		for _, line := range t.Odd() {
			r.Items = append(r.Items, c.excerpt(line))
		}
	}
	st := t.Connection.Status() // after the check
	var down *servers.DownError
	if errors.As(err, &down) && st.State == servers.Ready && st.Since.Before(begun) {
		st.State, st.Since = servers.Failed, time.Now() // the upstream has just ended, and the status does not show the end yet
	}
	c.addStatus(&r, st)
	c.setOutcome(&r, err)
	return r
}

// permit is the wire.Permit of the probe of a target.
type permit struct{ Target }

// Permitted implements wire.Permit.
func (p permit) Permitted() error {
	if p.Target.Permitted == nil {
		return nil
	}
	return p.Target.Permitted(p.Probe.Call)
}

// SlowError means that no response came within the timeout of a check.
type SlowError struct {
	What  string // the method without an answer, or "start"
	After time.Duration
}

func (e *SlowError) Error() string {
	if e.What == "start" {
		return fmt.Sprintf("is still starting after %v", e.After)
	}
	return fmt.Sprintf("no answer to %s within %v", e.What, e.After)
}

// UnknownError means that no upstream has the name.
type UnknownError struct {
	Server string
	Known  []string // the names of all upstreams
}

func (e *UnknownError) Error() string { return fmt.Sprintf("no server is called %q", e.Server) }

// list waits until an upstream has started and asks for the tools.
func (c Checker) list(ctx context.Context, up Connection, timeout time.Duration, r *Report) error {
	starting, cancel := context.WithTimeoutCause(ctx, timeout, &SlowError{"start", timeout})
	defer cancel()
	if err := up.Ready(starting); err != nil {
		return err
	}
	r.Method = protocol.MethodPing
	if server, ok := up.Server(); ok {
		if _, ok = wire.Get(server, "capabilities", wire.Tools.Capability()); ok {
			r.Method = wire.Tools.ListMethod()
		}
	}
	result, took, err := c.ask(ctx, up, wire.Call{Method: r.Method, Params: []byte("{}")}, c.Timeout)
	if err != nil {
		return err
	}
	r.Latency = milliseconds(took)
	if r.Method == protocol.MethodPing {
		return nil
	}
	tools, _ := wire.Get(result, string(wire.Tools))
	if _, err := wire.Elements(tools); err != nil {
		return fmt.Errorf("answered %s without a list of tools", r.Method)
	}
	return nil
}

// ask sends a request and returns the result and the duration. A JSON-RPC error is returned as an
// error.
func (c Checker) ask(ctx context.Context, up Connection, call wire.Call, timeout time.Duration) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, &SlowError{call.Method, timeout})
	defer cancel()
	call.Owner = c.Owner
	begun := time.Now()
	reply, err := up.Call(ctx, call)
	if err == nil && reply.Error != nil {
		err = fmt.Errorf("refused %s: %w", call.Method, wire.ParseError(reply.Error))
	}
	return reply.Result, time.Since(begun), err
}

// reason returns the text of an error without the name of the upstream, which a report
// contains anyway.
func reason(err error) string {
	var down *servers.DownError
	if errors.As(err, &down) {
		return down.Reason
	}
	return err.Error()
}

// Unavailable is an unavailable server.
type Unavailable struct {
	Server string `json:"server"` // script name
	State  string `json:"state"`  // starting, failed, closed, disabled
	// Why is a sentence for models with the problem and the advice. Why contains no secrets.
	Why string `json:"why"`
}
