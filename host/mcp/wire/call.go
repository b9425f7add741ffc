package wire

import "context"

// Call is a request to a peer.
type Call struct {
	Method string
	// Params is the raw params object; nil for none. The connection replaces or removes a progress
	// token in params.
	Params []byte
	// Progress, if set, is called with the raw params of each progress notification for the
	// request, in order and before the response. If the response is a continuing task (revision
	// 2025-11-25, basic/utilities/tasks), calls can follow until the task has ended.
	Progress func(params []byte)
	// Sent, if set, is called with the final params, including their token, before they are sent,
	// and again before each further attempt, after an attempt did not reach the peer. Sent must not
	// block.
	Sent func(params []byte)
	// Late, if set, is called with "progress" or "an answer" when something arrives for the request
	// after ctx has ended, on transports with late answers. Late runs on the read loop and must not
	// block.
	Late func(what string)
	// Owner is an arbitrary comparable value. Messages of the peer that belong to this request
	// carry the value back to the caller (Inbound.Owners). Nil for none.
	Owner any
	// Group is an arbitrary comparable value shared by the calls of a client. Memory of ended calls
	// is shared fairly between groups. Nil for none.
	Group any
	// Client is the self-description of the client behind the request: a raw object with the
	// client's capabilities and clientInfo, as in the params of initialize. Nil without a client. A
	// request of the stateless era repeats the description.
	Client []byte
	// LogLevel is the lowest level of the log messages that this client wants with the request; ""
	// if the client asked for none. A request of the stateless era repeats the level.
	LogLevel string
	// Inputs are the answers to the questions with which the peer answered an earlier attempt of
	// this request. A request of the stateless era has the answers in its params.
	Inputs Inputs
	// Header has the HTTP headers of a request of the stateless era, as an http.Header; nil for
	// every other request. Such a request belongs to no session. Closing the request's stream
	// cancels the request; the stream is never resumed.
	Header map[string][]string
	// Unsure is set for a request to a client if several requests of the client, or calls of a
	// script, are in flight, and the related request was guessed.
	Unsure bool
	// Own is set for a request to a client if the proxy itself asks, and no upstream.
	Own bool
	// Permit, if set, is asked each time before the request is written: the first time, and after
	// each wait or new connection. After an error of Permit, the request is not sent and the call
	// fails with the error.
	Permit Permit
}

// Inputs are the members that a request of the stateless era returns to a peer that answered with
// questions (revision 2026-07-28, basic/patterns/mrtr). The zero value is for the first attempt of
// a request.
type Inputs struct {
	Responses []byte // raw object with the answers; nil for none
	State     []byte // raw requestState of the peer's answer; nil if absent
}

// IsZero reports whether in has no member to return.
func (in Inputs) IsZero() bool { return in.Responses == nil && in.State == nil }

// Permit decides whether a request may still be sent. The connection's goroutines call Permitted,
// which must not block and must be safe for concurrent use.
type Permit interface {
	// Permitted returns why the request may no longer be sent, or nil.
	Permitted() error
}

// DeniedError is the error of a request that was not sent because the Permit refused.
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

// CompletionFunc receives the outcome of an asynchronous call: the reply, or, if next is not nil, a
// continuation that returns the reply or an error. A non-nil next must be called. A CompletionFunc
// must not block.
type CompletionFunc func(reply Reply, next Continuation)

// Continuation does the rest of a call. A Continuation may block until ctx ends.
type Continuation func(ctx context.Context) (Reply, error)

// Inbound is a request or notification sent by a peer on its own initiative.
type Inbound struct {
	Method string
	Params []byte // raw; nil if absent; the receiver may keep it
	// Owners returns the owners, without nil ones, of the pending calls that the message may belong
	// to, oldest first. If the transport ties the message to a call's stream (HTTP), Owners returns
	// only this call's owner; otherwise the owners of all pending calls of the connection, perhaps
	// none. The function is valid while the message is handled, and takes no locks of its caller.
	Owners func() []any
	// Await waits until decided returns true for the owners with calls in flight since the message
	// arrived, or until ctx ends, and returns these owners. A call that was cancelled before the
	// message arrived counts for a few seconds more. A call that is cancelled while Await waits
	// continues to count. Only requests have Await.
	Await func(ctx context.Context, decided func(owners []any) bool) []any
}
