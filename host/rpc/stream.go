package rpc

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Stream carries messages to the peer in order, each whole. It is comparable and
// safe for concurrent use. When it has taken a frame over, it calls the frame's
// Done once, on any goroutine and perhaps before the method returns.
type Stream interface {
	// TrySend takes f over if that needs no waiting. When it is false, f has not
	// been taken over.
	TrySend(f Frame) bool
	// Send takes f over, and waits within ctx until it can. After an error f has
	// not been taken over: the cause of ctx, ErrFinished, or what has broken the
	// stream.
	Send(ctx context.Context, f Frame) error
	// Push takes f over without waiting: a cancellation, of which there is one
	// for each request that was taken over. The error is ErrFinished, and then f
	// has not been taken over.
	Push(f Frame) error
	// Withdraw takes a request back that was taken over; true if nothing of it
	// has been or will be written. Its frame's Done is not called then.
	Withdraw(id int64) bool
	// Finish says that all requests of one frame of the peer that came on the
	// stream have been answered or dropped. f is the last message for them,
	// without Data if there is none. It takes f over without waiting. It is called
	// once for each frame that had requests.
	Finish(f Frame)
}

// CallStream is a Stream that carries a single request of ours and what the peer
// sends for it, as the response to one POST of streamable HTTP does. What comes
// on it belongs to that call alone, and an answer with another id than that of
// the request is never taken for its answer.
type CallStream interface {
	Stream
	// Call is the id of the request (Frame.ID) and its owner (wire.Call.Owner).
	Call() (id int64, owner any)
	// Settled is told, at most once, that the call has its outcome, and whether
	// that is an answer. It must not block.
	Settled(answered bool)
}

// ErrFinished says that a stream takes no more messages because Finish was
// called before. They go to the main stream then.
var ErrFinished = errors.New("the stream is finished")

// Frame is a message on its way to a Stream.
type Frame struct {
	Data []byte // one JSON-RPC message or batch; the stream must not change it
	// ID is that of a request of ours; 0 for all other messages.
	ID int64
	// Cancels is the id of the request that the message cancels; 0 for all other
	// messages.
	Cancels int64
	// Permit is asked with wire.Ask right before a request is written. A request
	// that is denied is Unsent with that error.
	Permit wire.Permit

	conn   *Conn
	answer bool // it holds one of conn.answers
}

// Fate is what has become of a frame.
type Fate int

const (
	// Written: the frame was written, or handed to the system.
	Written Fate = iota
	// Broken: writing it failed, and a part may have been written.
	Broken
	// Unsent: nothing of it was written, nor will be.
	Unsent
)

// Done tells the connection what has become of f. A request that is not Written
// fails with err; with nil, with the error that the connection ends with, or
// with one that says that the peer does not read.
func (f Frame) Done(fate Fate, err error) {
	if f.conn == nil {
		return
	}
	if f.answer {
		<-f.conn.answers
	}
	if f.ID == 0 || fate == Written {
		return
	}
	if err == nil {
		err = errUnwritten
	}
	f.conn.resolve(f.ID, outcome{err: err, unsent: fate == Unsent})
}

// errUnwritten stands for the error of a request that could not be written; see
// Conn.verdict.
var errUnwritten = errors.New("not written")
