package streamable

import (
	"cmp"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Access says which clients have access, and with which rights.
type Access struct {
	// Tokens are the accepted bearer tokens. Without Tokens, clients need no token.
	Tokens []bearer.Token
	// AllowedOrigins are origins of web pages ("https://host:port") that may use the endpoint from
	// a browser, in addition to the origin of the address that the request came to. "*" allows all.
	AllowedOrigins []string
	// AllowedHosts are host names, with or without a port, that clients may use to reach the
	// endpoint, in addition to loopback names and the address that they connected to. "*" allows
	// all. AllowedHosts is the place for the DNS name of the server.
	AllowedHosts []string
}

// Options of a Handler. Zero values mean the default.
type Options struct {
	// Session are the options of each session. MaxMessage also bounds the body of a request.
	Session clients.Options
	Access
	// SessionTTL is how long a session may be idle: without a request in flight and without an open
	// stream. Default DefaultSessionTTL.
	SessionTTL time.Duration
	// MaxSessions is the most sessions at a time. Default 1000.
	MaxSessions int
	// MaxSessionsPerToken and MaxSessionsPerAddress are the most sessions of a token and of an
	// address; an IPv6 /64 network counts as an address. The default is half of MaxSessions, but
	// MaxSessions without tokens or with a single token, and for loopback addresses, which proxies
	// connect from.
	MaxSessionsPerToken, MaxSessionsPerAddress int
	// UnusedTTL is SessionTTL for sessions in which only the handshake and pings were
	// received. Default 30 seconds.
	UnusedTTL time.Duration
	// InitializeRate is how many sessions a second a token, and an address, may begin. The rate
	// applies after a burst of as many sessions as the token or address may have, at least 100.
	// Default 50.
	InitializeRate int
	// Buffer is how many bytes, in addition to the largest message, may wait on a stream for a
	// client that does not read. Beyond Buffer the client's session ends. Default 16 MiB.
	Buffer int
	// Replay is how many bytes of a session's events are kept for a client that
	// resumes a stream, and how many bytes of messages for a client that has no
	// stream open. Default 1 MiB.
	Replay int
	// KeepAlive is the time between comments on an event stream. A request without an answer after
	// half of KeepAlive gets an event stream. Default 30 seconds.
	KeepAlive time.Duration
	// PrimeAfter is how long a request may take before the event stream begins, if the client
	// expects a first event with an id for resuming the stream. Default 1 second.
	PrimeAfter time.Duration
	// ResumeWindow is how long a client has to resume a broken stream before the cancellation of
	// the client's requests. Default 5 seconds. With a negative ResumeWindow, the stream of a
	// request cannot be resumed, and the events have no ids.
	ResumeWindow time.Duration
	// ListenWindow is how long a request to a client waits for the client to
	// open a stream. Default 2 seconds.
	ListenWindow time.Duration
	// Fleet is the fleet with the other replicas that can continue the sessions; nil without a
	// fleet.
	Fleet *Fleet
	// Replicas are the other replicas of a fleet; nil for none.
	Replicas Replicas
	// Refuses returns why no new session may begin now, or nil. A nil Refuses refuses no session.
	Refuses func() error
	// WallClock is the clock by which tokens expire. All else depends on how long
	// something takes. Default [time.Now].
	WallClock func() time.Time
}

// DefaultSessionTTL is the default of Options.SessionTTL.
const DefaultSessionTTL = 30 * time.Minute

func (o Options) withDefaults() Options {
	o.SessionTTL = cmp.Or(o.SessionTTL, DefaultSessionTTL)
	o.MaxSessions = cmp.Or(o.MaxSessions, 1000)
	o.UnusedTTL = cmp.Or(o.UnusedTTL, 30*time.Second)
	o.InitializeRate = cmp.Or(o.InitializeRate, 50)
	o.Buffer = cmp.Or(o.Buffer, 16<<20)
	o.Replay = cmp.Or(o.Replay, 1<<20)
	o.KeepAlive = cmp.Or(o.KeepAlive, 30*time.Second)
	o.PrimeAfter = cmp.Or(o.PrimeAfter, time.Second)
	o.ResumeWindow = cmp.Or(o.ResumeWindow, 5*time.Second)
	o.ListenWindow = cmp.Or(o.ListenWindow, 2*time.Second)
	if o.WallClock == nil {
		o.WallClock = time.Now
	}
	o.Session.MaxMessage = cmp.Or(o.Session.MaxMessage, wire.DefaultMaxMessage)
	return o
}

// Limits that cannot be configured.
const (
	// writeTimeout is how long a write to a client may make no progress before the connection
	// counts as dead.
	writeTimeout = 5 * time.Minute
	// replayTime is how long a finished stream is kept for a client that may have lost the end of
	// the stream.
	replayTime = 5 * time.Minute
	// closeTimeout is how long the end of a session waits for the session's HTTP requests, before
	// and after their connections are cut off.
	closeTimeout = 500 * time.Millisecond
)
