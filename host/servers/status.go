package servers

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// State is the state of an upstream.
type State string

// The states. Starting is followed by Ready or Failed, Ready by Failed, Failed by
// Starting unless Spec.Restart is "never", and each of them by Closed.
const (
	Starting State = "starting" // starting the process, initializing or listing
	Ready    State = "ready"    // calls are forwarded
	Failed   State = "failed"   // could not be started, or has ended; Status.Err says why
	Closed   State = "closed"   // Close was called
)

// Status is a snapshot of an upstream, for people to read.
type Status struct {
	Name            string
	State           State
	Since           time.Time // when State was entered
	ServerName      string    // the server's name for itself; "" before the first handshake
	ServerVersion   string
	ProtocolVersion string
	Agreed          string // how ProtocolVersion was found, for people
	// The number of items in the last listing of each surface.
	Tools, Resources, Templates, Prompts int
	// StartTime is how long the last start took, up to Ready, without the wait
	// for Options.InitializeParams; 0 before the first.
	StartTime time.Duration
	Restarts  int       // starts after the first
	RestartAt time.Time // in state Failed: when the next start is due; zero for never
	// SlowedSince is when we began to read the server slowly because of too many unsolicited
	// messages; zero if we read at full speed.
	SlowedSince time.Time
	Pid         int // of the process; 0 without a process
	// Err is the last error, at most 2 KiB, or "". The error of a downed upstream includes the
	// first line that was not a message, the last lines of stderr, and the result of the error's
	// Detail method, if any. Clients see only the first line of Err, which has none of these. Err
	// stays after a successful restart.
	Err string
}

// count returns a pointer to the number of items of a surface.
func (s *Status) count(surface wire.Surface) *int {
	switch surface {
	case wire.Resources:
		return &s.Resources
	case wire.Templates:
		return &s.Templates
	case wire.Prompts:
		return &s.Prompts
	}
	return &s.Tools
}
