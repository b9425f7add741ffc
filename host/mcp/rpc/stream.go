package rpc

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Stream sends messages to the peer, whole and in order. A Stream is comparable and safe for
// concurrent use. For each accepted frame, the Stream calls the frame's Done once, on any
// goroutine, perhaps before the method returns.
type Stream interface {
	// TrySend accepts f if possible without waiting. Otherwise TrySend returns false.
	TrySend(f Frame) bool
	// Send waits until f can be accepted, or ctx ends. With an error f has not been accepted: the
	// cause of ctx, ErrFinished, or the error of the broken stream.
	Send(ctx context.Context, f Frame) error
	// Push accepts f, a cancellation, without waiting. Each accepted request has at most one
	// cancellation. With ErrFinished, f has not been accepted.
	Push(f Frame) error
	// Withdraw removes an accepted request. It returns true if no part of the request has been or
	// will be written; then the frame's Done is not called.
	Withdraw(id int64) bool
	// Finish is called once for each frame of the peer on the stream with requests, when all of
	// them have been answered or dropped. f is the last message for them, without Data if no
	// message is due. Finish accepts f without waiting.
	Finish(f Frame)
}

// CallStream is a Stream for a single request of the proxy and the peer's messages for this
// request, for example a POST of streamable HTTP and the response. Messages on the stream belong to
// this call alone. An answer with a different id than the request is never accepted.
type CallStream interface {
	Stream
	// Call returns the id of the request (Frame.ID) and the owner (wire.Call.Owner).
	Call() (id int64, owner any)
	// Settled is called at most once, at the outcome of the call. answered reports whether the
	// outcome is an answer, and elsewhere whether the answer, perhaps an unusable one, came on
	// another stream. Settled must not block.
	Settled(answered, elsewhere bool)
}

// ErrFinished means that a stream accepts no more messages because Finish was called. Such messages
// are then sent on the main stream.
var ErrFinished = errors.New("the stream is finished")

// Frame is a message on its way to a Stream.
type Frame struct {
	Data []byte // a JSON-RPC message or batch; the stream must not change it
	// ID is the id of a request of ours; 0 for all other messages.
	ID int64
	// Cancels is the id of the cancelled request; 0 for messages other than cancellations.
	Cancels int64
	// Permit is asked with wire.CheckPermit just before a request is written. A denied request is
	// Unsent with the Permit's error.
	Permit wire.Permit

	conn   *Conn
	answer bool // the frame holds one of conn.answers
	bytes  int  // bytes of Options.Memory held by the frame
	alone  bool // no other request was in flight, so waiting for more to write is of no use
}

// WriteResult says whether a frame was written.
type WriteResult int

const (
	// Written: the frame was written or passed to the operating system.
	Written WriteResult = iota
	// Broken: writing failed, and a part of the frame may have been written.
	Broken
	// Unsent: nothing of the frame has been or will be written.
	Unsent
)

// Done tells the connection whether f was written. A request that was not Written fails with err.
// If err is nil, the request fails with the error of the ending connection, or with an error about
// a peer that does not read.
func (f Frame) Done(result WriteResult, err error) {
	if f.conn == nil {
		return
	}
	if f.answer {
		<-f.conn.answers
	}
	if f.bytes > 0 {
		f.conn.opts.Memory.Sub(f.bytes)
	}
	if f.ID == 0 || result == Written {
		return
	}
	if err == nil {
		err = errUnwritten
	}
	f.conn.resolve(f.ID, outcome{err: err, unsent: result == Unsent})
}

// errUnwritten stands for the error of a request that could not be written; see Conn.callerResult.
var errUnwritten = errors.New("not written")
