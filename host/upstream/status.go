package upstream

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// State is where an upstream is in its life.
type State string

// The states. Starting leads to Ready or Failed, Ready to Failed, Failed to
// Starting unless Spec.Restart is "never", and every one to Closed.
const (
	Starting State = "starting" // the process, the handshake or the listings are under way
	Ready    State = "ready"    // calls are forwarded
	Failed   State = "failed"   // could not be started, or has ended; Status.Err says why
	Closed   State = "closed"   // Close was called
)

// Status is a snapshot of an upstream for people.
type Status struct {
	Name            string
	State           State
	Since           time.Time // when State was entered
	ServerName      string    // what the server calls itself; "" before the first handshake
	ServerVersion   string
	ProtocolVersion string
	// Numbers of items in the last listings.
	Tools, Resources, Templates, Prompts int
	// StartTime is how long the last start took, from its beginning to Ready,
	// without the wait for Options.Hello; 0 before the first.
	StartTime time.Duration
	Restarts  int       // starts after the first
	RestartAt time.Time // in state Failed: when the next start is due; zero for never
	// SlowedSince is since when the server is read slowly, because it sends more
	// than it is asked for; zero if it is not.
	SlowedSince time.Time
	Pid         int // of the process; 0 when there is none
	// Err is the last error; if it took the upstream down, with the first line
	// that was no message and the last lines the server wrote to stderr; at
	// most 2 KiB. It stays after a successful restart. "" if there was none.
	Err string
}

// count is the number of items in the last listing of a surface.
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
