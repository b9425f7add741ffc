// Package peer passes requests of clients on from one replica of a fleet to another.
//
//	peer.go      Link: what a replica needs for that
//	identity.go  the certificates with which replicas know each other
//	serve.go     the listener for other replicas
//	bounded.go   how many connections it has
//	forward.go   passing a request on, and the answer back
//	headers.go   which headers go through
//
// Replicas speak HTTP/2 over TLS 1.3. Both sides have a certificate that is signed by an
// authority whose key is derived from the key of the fleet, and that names the replica. So only
// replicas can connect, what they send can be neither read nor changed nor replayed, and a
// request reaches the replica it is for or none, even if another one has its address now.
// Certificates do not expire, since clocks of different machines are not compared: they are made
// anew by each process, and are worth nothing when the key of the fleet is taken away.
package peer

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Options of a Link. All but Log are needed.
type Options struct {
	// ID is that of this replica.
	ID string
	// Keys returns keys of 32 bytes that all replicas have; see [fleet.Fleet.Keys]. The first
	// one signs the certificate of this replica, and those of others may be signed by any. It
	// is called for each connection and request.
	Keys func() [][]byte
	// Address returns HOST:PORT of the listener of another replica; ok is false if there is no
	// such replica, or it is known to be dead. It must not block.
	Address func(id string) (address string, ok bool)
	Log     *slog.Logger
}

// Purpose is that of the keys of a Link; see [fleet.Fleet.Keys].
const Purpose = "peer"

// Link is the connection of a replica with the others. It is safe for concurrent use.
type Link struct {
	opts Options

	mu     sync.Mutex // guards what follows
	now    *identity  // nil before it is needed
	dialer *dialer    // with now
}

// New makes a Link. The caller must Close it when nothing uses it any more.
func New(opts Options) *Link {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Link{opts: opts}
}

// Close closes the connections to other replicas. Requests under way must have ended. A nil Link
// has none.
func (l *Link) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dialer != nil {
		l.dialer.CloseIdleConnections()
	}
}

// Errors of requests to other replicas.
var (
	// ErrUnreached says that the replica has got nothing of a request, so that the request can
	// be answered in another way.
	ErrUnreached = errors.New("the replica cannot be reached")
	// ErrLost says that the connection to the replica has ended before the answer was
	// complete: it may have done what was asked.
	ErrLost = errors.New("the connection to the replica was lost")
)

// Error says why a request was not answered by another replica. It is ErrUnreached or ErrLost.
type Error struct {
	Replica string // its id
	// Started says that the client has got a part of the answer.
	Started bool
	Kind    error // ErrUnreached or ErrLost
	Err     error // why
}

func (e *Error) Error() string { return fmt.Sprintf("replica %s: %v: %v", e.Replica, e.Kind, e.Err) }

// Unwrap makes errors.Is find what it is, and why.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }
