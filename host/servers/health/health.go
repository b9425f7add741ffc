// Package health checks whether upstreams work. It asks each of them for its tools and
// makes the probe call that is configured for it. The last known state of an upstream
// says little: a server can hang, or have lost its own backend, while its process runs.
//
//	health.go       checking all upstreams, each with its own timeout
//	probe.go        making a probe call and checking its result
//	match.go        comparing JSON with expected JSON
//	report.go       reports, as rows of a table and as JSON
//	unavailable.go  a server that is not available
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

// Asleep is the state of an upstream with start = "lazy" that has not been started yet.
const Asleep servers.State = "asleep"

// Disabled is the state of an upstream that the configuration disables.
const Disabled servers.State = "disabled"

// Connection is the part of a connection to an upstream that a check needs. It is safe
// for concurrent use.
type Connection interface {
	Status() servers.Status
	// Ready starts the upstream if it is asleep, and waits until it has started.
	// The error says why it is down, or is the cause of ctx.
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
	// Connection is the connection to it; nil if it is disabled.
	Connection Connection
	// Probe is a call that must succeed; nil means that listing its tools is enough.
	Probe *config.Probe
	// Pins returns what is not as it was pinned, in short lines; nil: nothing.
	Pins func() []string
	// Odd returns what it lists that strict clients refuse, in short lines; nil: nothing.
	Odd func() []string
	// Permitted returns why the tool of Probe may not be called; nil: it may.
	Permitted func(tool string) error
	// Wake starts the upstream if it is asleep. Otherwise it is skipped.
	Wake bool
}

// Checker checks upstreams. The zero value has the default timeouts.
type Checker struct {
	// Timeout bounds the wait for an upstream that is starting, and then the wait
	// for the response to tools/list. A probe has its own timeout after that.
	Timeout time.Duration
	// WakeTimeout bounds the start of an upstream that was asleep.
	WakeTimeout time.Duration
	// Owner is passed with the requests (wire.Call.Owner). It receives requests
	// that the upstream makes during a check; nil: they are refused.
	Owner any
	// Mask replaces secrets in texts that servers write; nil: there are none.
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

// check checks one upstream.
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
		st.State, st.Since = servers.Failed, time.Now() // it has just ended, and its status does not show it yet
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

// SlowError says that there was no response within the timeout of a check.
type SlowError struct {
	What  string // the method that was not answered, or "start"
	After time.Duration
}

func (e *SlowError) Error() string {
	if e.What == "start" {
		return fmt.Sprintf("is still starting after %v", e.After)
	}
	return fmt.Sprintf("no answer to %s within %v", e.What, e.After)
}

// UnknownError says that there is no upstream with that name.
type UnknownError struct {
	Server string
	Known  []string // the names of all upstreams
}

func (e *UnknownError) Error() string { return fmt.Sprintf("no server is called %q", e.Server) }

// list waits until an upstream has started and asks for its tools.
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
		return fmt.Errorf("answered %s with something that is not a list of tools", r.Method)
	}
	return nil
}

// ask sends a request and returns the result and how long that took. A JSON-RPC error
// is returned as an error.
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
