package wire

import "context"

// Call is a request on its way to a peer.
type Call struct {
	Method string
	// Params is the raw params object; nil for none. A progress token in it is
	// replaced or taken out by the connection.
	Params []byte
	// Progress gets the raw params of each progress notification for the
	// request: in order, all of them before the answer. Nil: not wanted. Where
	// the answer is a task that goes on (revision 2025-11-25,
	// basic/utilities/tasks) it may be called until the task has ended.
	Progress func(params []byte)
	// Sent is told the params as they leave, with the token that they have then,
	// before they do; again when the call is made again because it did not reach
	// the peer. It does not block. Nil: nobody is.
	Sent func(params []byte)
	// Late is told of what comes for the request after ctx has ended, "progress" or
	// "an answer", where the transport lets that through: on its read loop, so that
	// it must not block. Nil: nobody is.
	Late func(what string)
	// Owner is whatever the caller wants to have back with messages of the peer
	// that belong to this request (Inbound.Owners); comparable, nil for none.
	Owner any
	// Permit is asked whenever the request is about to be written, the first time
	// and after each wait or new connection: its error takes the place of the
	// request, which is not sent. Nil: it may be sent.
	Permit Permit
}

// Permit tells whether a request may still be sent. It is asked on goroutines of
// the connection, must not block, and is safe for concurrent use.
type Permit interface {
	// Permitted is why the request may not be sent any more, or nil.
	Permitted() error
}

// DeniedError says that a request was not sent because its Permit did not allow
// it.
type DeniedError struct{ Err error }

func (e *DeniedError) Error() string { return e.Err.Error() }

func (e *DeniedError) Unwrap() error { return e.Err }

// Ask asks p, which may be nil; the error is a *DeniedError.
func Ask(p Permit) error {
	if p == nil {
		return nil
	}
	if err := p.Permitted(); err != nil {
		return &DeniedError{err}
	}
	return nil
}

// CompletionFunc is told what became of a call that nobody waits for: its reply,
// or a continuation that gives its reply or why there is none. next is nil where
// there is a reply; else it must be called. A CompletionFunc must not block.
type CompletionFunc func(reply Reply, next Continuation)

// Continuation goes on with a call. It may block, and ends with ctx.
type Continuation func(ctx context.Context) (Reply, error)

// Inbound is a request or notification that a peer sends by itself.
type Inbound struct {
	Method string
	Params []byte // raw; nil if absent; the receiver may keep it
	// Owners are those of the calls in flight that the message may belong to,
	// oldest first, without nil ones: exactly the one call on whose stream it
	// came where the transport tells (HTTP), otherwise all calls in flight on
	// the connection, perhaps none. The function is good while the message is
	// handled, and takes no locks of its caller.
	Owners func() []any
}
