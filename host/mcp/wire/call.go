package wire

import "context"

// Call is a request to a peer.
type Call struct {
	Method string
	// Params is the raw params object; nil for none. The connection replaces or
	// removes a progress token in it.
	Params []byte
	// Progress, if set, is called with the raw params of each progress notification
	// for the request, in order and before the response. If the response is a task
	// that continues (revision 2025-11-25, basic/utilities/tasks), it can be called
	// until the task has ended.
	Progress func(params []byte)
	// Sent, if set, is called with the final params, including their token, before
	// they are sent. It is called again if the request is sent again because it did
	// not reach the peer. It must not block.
	Sent func(params []byte)
	// Late, if set, is called with "progress" or "an answer" when something arrives
	// for the request after ctx has ended, on transports that can receive it. It
	// runs on the read loop and must not block.
	Late func(what string)
	// Owner is an arbitrary comparable value. The caller gets it back with messages
	// of the peer that belong to this request (Inbound.Owners). Nil for none.
	Owner any
	// Group is an arbitrary comparable value that the calls of one client share. What is
	// remembered of them leaves room for those of others. Nil for none.
	Group any
	// Client is what the client that the request is made for says about itself: a raw
	// object with its capabilities and clientInfo, as in the params of initialize. Nil if
	// there is no client. A request of the stateless era repeats it.
	Client []byte
	// LogLevel is the lowest level of the log messages that this client wants with the
	// request; "" if it has asked for none. A request of the stateless era repeats it.
	LogLevel string
	// Inputs are the answers to what the peer has asked when the request was made before.
	// A request of the stateless era has them in its params.
	Inputs Inputs
	// Header is nil except for a request of the stateless era: the headers that it has
	// over HTTP, as an http.Header. Such a request belongs to no session. It is cancelled
	// by closing its stream, which is never resumed.
	Header map[string][]string
	// Unsure says, of a request to a client, that several requests of the client, or calls
	// of a script, are in flight, and that the one which it belongs to was guessed.
	Unsure bool
	// Own says, of a request to a client, that the proxy itself asks, and no upstream.
	Own bool
	// Permit, if set, is asked each time before the request is written: the first
	// time, and after each wait or new connection. If it returns an error, the
	// request is not sent and the call fails with that error.
	Permit Permit
}

// Inputs are what a request of the stateless era returns to a peer that has answered it
// with questions (revision 2026-07-28, basic/patterns/mrtr). The zero value is for a
// request that is made for the first time.
type Inputs struct {
	Responses []byte // raw object with the answers; nil for none
	State     []byte // raw requestState of the peer's answer; nil if it had none
}

// IsZero reports whether there is nothing to return.
func (in Inputs) IsZero() bool { return in.Responses == nil && in.State == nil }

// Permit decides whether a request may still be sent. The connection's goroutines
// call it. It must not block, and must be safe for concurrent use.
type Permit interface {
	// Permitted returns why the request may no longer be sent, or nil.
	Permitted() error
}

// DeniedError says that a request was not sent because its Permit refused it.
type DeniedError struct{ Err error }

func (e *DeniedError) Error() string { return e.Err.Error() }

func (e *DeniedError) Unwrap() error { return e.Err }

// CheckPermit calls p.Permitted, unless p is nil. The error is a *DeniedError.
func CheckPermit(p Permit) error {
	if p == nil {
		return nil
	}
	if err := p.Permitted(); err != nil {
		return &DeniedError{err}
	}
	return nil
}

// CompletionFunc receives the outcome of an asynchronous call: its reply, or, if next
// is not nil, a continuation that returns the reply or an error. In that case next must
// be called. A CompletionFunc must not block.
type CompletionFunc func(reply Reply, next Continuation)

// Continuation does the rest of a call. It may block until ctx ends.
type Continuation func(ctx context.Context) (Reply, error)

// Inbound is a request or notification that a peer sends on its own initiative.
type Inbound struct {
	Method string
	Params []byte // raw; nil if absent; the receiver may keep it
	// Owners returns the owners, without nil ones, of the pending calls that the
	// message may belong to, oldest first. If the transport tells on which call's
	// stream the message arrived (HTTP), that is one call; otherwise it is all
	// pending calls of the connection, perhaps none. The function is valid while
	// the message is handled, and takes no locks of its caller.
	Owners func() []any
	// Await waits until decided returns true for the owners whose calls have not ended
	// since the message arrived, or until ctx ends, and returns these owners. A call that
	// was cancelled before it arrived counts for some seconds more, and one that is
	// cancelled while Await waits counts on. Only requests have it.
	Await func(ctx context.Context, decided func(owners []any) bool) []any
}
