// Package health finds out how upstreams are: it asks each of them for its
// tools now, and has it do what its configuration says it must be able to do (a
// probe). What an upstream was like a moment ago says little: a server can hang,
// or have lost its own backend, behind a process that runs.
//
//	health.go  the check of all upstreams, each in its own bounded time
//	probe.go   the call of a probe, and whether its answer is what was expected
//	match.go   comparing JSON with expected JSON
//	report.go  what is found, as rows of a table and as JSON
//	absence.go  a server that is not available
package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// The times that are used where a Checker has none.
const (
	DefaultWithin = 5 * time.Second
	DefaultWake   = 20 * time.Second
)

// Asleep is the state of an upstream with start = "lazy" that has not been
// needed yet.
const Asleep upstream.State = "asleep"

// Disabled is the state of an upstream that is configured and not to be used.
const Disabled upstream.State = "disabled"

// Connection is what a check needs of a connection to an upstream. It is safe
// for concurrent use.
type Connection interface {
	Status() upstream.Status
	// Ready starts the upstream if it sleeps, and waits until it has started;
	// the error says why it is down, or is the cause of ctx.
	Ready(ctx context.Context) error
	// Server is the raw result of the last handshake; not ok before the first.
	Server() (result []byte, ok bool)
	// Call sends a request; the error is the cause of ctx when that ends first.
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
}

// Target is an upstream to be checked.
type Target struct {
	Name string
	// Connection to it; nil for one that is disabled.
	Connection Connection
	// Probe is a call that must succeed; nil means that listing its tools is enough.
	Probe *config.Probe
	// Wake has it started if it sleeps. Otherwise it is left asleep.
	Wake bool
}

// Checker checks upstreams. The zero value is one with the default times.
type Checker struct {
	// Within bounds the wait for an upstream that is starting, and then the
	// answer to the request for its tools. A probe has a time of its own after
	// that.
	Within time.Duration
	// Wake bounds the start of an upstream that slept.
	Wake time.Duration
	// Owner goes with the requests (wire.Call.Owner): who is asked when the
	// upstream wants to know something meanwhile; nil for nobody.
	Owner any
	// Mask replaces secrets in texts that servers write; nil: there are none.
	Mask func(string) string
	// Details says that reports have them.
	Details bool
}

// Check checks all targets at the same time, and returns what it found in their
// order once the slowest is done.
func (c Checker) Check(ctx context.Context, targets []Target) []Report {
	if c.Within <= 0 {
		c.Within = DefaultWithin
	}
	if c.Wake <= 0 {
		c.Wake = DefaultWake
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
	patience, begun := c.Within, time.Now()
	if t.Connection.Status().State == Asleep {
		if !t.Wake {
			c.note(&r, t.Connection.Status())
			return r
		}
		patience = c.Wake
	}
	err := c.list(ctx, t.Connection, patience, &r)
	if err == nil && t.Probe != nil {
		r.Probe = c.probe(ctx, t.Connection, t.Probe)
	}
	st := t.Connection.Status() // as it is now, whatever the check did to it
	var down *upstream.DownError
	if errors.As(err, &down) && st.State == upstream.Ready && st.Since.Before(begun) {
		st.State, st.Since = upstream.Failed, time.Now() // it has just ended, and does not know yet
	}
	c.note(&r, st)
	c.judge(&r, err)
	return r
}

// SlowError says that there was no answer in the time that a check has.
type SlowError struct {
	What  string // method that was not answered, or "start"
	After time.Duration
}

func (e *SlowError) Error() string {
	if e.What == "start" {
		return fmt.Sprintf("is still starting after %v", e.After)
	}
	return fmt.Sprintf("no answer to %s within %v", e.What, e.After)
}

// UnknownError says that there is no upstream of a name.
type UnknownError struct {
	Server string
	Known  []string // those that there are
}

func (e *UnknownError) Error() string { return fmt.Sprintf("no server is called %q", e.Server) }

// list waits until an upstream has started and asks for its tools.
func (c Checker) list(ctx context.Context, up Connection, patience time.Duration, r *Report) error {
	starting, cancel := context.WithTimeoutCause(ctx, patience, &SlowError{"start", patience})
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
	result, took, err := c.ask(ctx, up, wire.Call{Method: r.Method, Params: []byte("{}")}, c.Within)
	if err != nil {
		return err
	}
	r.Latency = milliseconds(took)
	if r.Method == protocol.MethodPing {
		return nil
	}
	tools, _ := wire.Get(result, string(wire.Tools))
	if _, err := wire.Elements(tools); err != nil {
		return fmt.Errorf("answered %s with what is no list of tools", r.Method)
	}
	return nil
}

// ask sends a request and returns the result, and how long that took. An error
// of the protocol is an error.
func (c Checker) ask(ctx context.Context, up Connection, call wire.Call, within time.Duration) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, &SlowError{call.Method, within})
	defer cancel()
	call.Owner = c.Owner
	begun := time.Now()
	reply, err := up.Call(ctx, call)
	if err == nil && reply.Error != nil {
		err = fmt.Errorf("refused %s: %w", call.Method, wire.ParseError(reply.Error))
	}
	return reply.Result, time.Since(begun), err
}

// reason is an error without the name of the upstream, which a report has
// anyway.
func reason(err error) string {
	var down *upstream.DownError
	if errors.As(err, &down) {
		return down.Reason
	}
	return err.Error()
}
