package rpc

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Stream sends messages to the peer, whole and in order. It is comparable and safe
// for concurrent use. For each frame that it has accepted it calls the frame's Done
// once, on any goroutine, perhaps before the method returns.
type Stream interface {
	// TrySend accepts f if that needs no waiting. Otherwise it returns false.
	TrySend(f Frame) bool
	// Send waits until it can accept f, or ctx ends. After an error f has not been
	// accepted: the cause of ctx, ErrFinished, or what has broken the stream.
	Send(ctx context.Context, f Frame) error
	// Push accepts f, which is a cancellation, without waiting. There is at most one
	// for each request that was accepted. If it returns ErrFinished, f has not been
	// accepted.
	Push(f Frame) error
	// Withdraw removes a request that was accepted. It returns true if nothing of the
	// request has been or will be written; then its frame's Done is not called.
	Withdraw(id int64) bool
	// Finish is called once for each frame of the peer that came on the stream and had
	// requests, when all of them have been answered or dropped. f is the last message
	// for them, without Data if there is none. Finish accepts f without waiting.
	Finish(f Frame)
}

// CallStream is a Stream for a single request of ours and what the peer sends for
// it, such as a POST of streamable HTTP and its response. What comes on it belongs
// to that call alone. An answer with another id than that of the request is never
// accepted as its answer.
type CallStream interface {
	Stream
	// Call returns the id of the request (Frame.ID) and its owner (wire.Call.Owner).
	Call() (id int64, owner any)
	// Settled is called at most once, when the call has its outcome. answered says
	// whether the outcome is an answer, and elsewhere whether the answer, perhaps one
	// that cannot be used, came on another stream. It must not block.
	Settled(answered, elsewhere bool)
}

// ErrFinished means that a stream accepts no more messages because Finish was called.
// They are then sent on the main stream.
var ErrFinished = errors.New("the stream is finished")

// Frame is a message on its way to a Stream.
type Frame struct {
	Data []byte // one JSON-RPC message or batch; the stream must not change it
	// ID is the id of a request of ours; 0 for all other messages.
	ID int64
	// Cancels is the id of the request that the message cancels; 0 for all other
	// messages.
	Cancels int64
	// Permit is asked with wire.CheckPermit just before a request is written. A request that
	// is denied is Unsent with that error.
	Permit wire.Permit

	conn   *Conn
	answer bool // it holds one of conn.answers
	bytes  int  // of Options.Memory that it holds
	alone  bool // nothing else was in flight, so that waiting for more to write is of no use
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

// Done tells the connection whether f was written. A request that was not Written
// fails with err. If err is nil, it fails with the error that the connection ends
// with, or with one that says that the peer does not read.
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

// errUnwritten stands for the error of a request that could not be written; see
// Conn.callerResult.
var errUnwritten = errors.New("not written")
