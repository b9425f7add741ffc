package front

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Stream takes messages to the client in order, each whole. It is comparable
// and safe for concurrent use.
type Stream interface {
	// Write takes one message over, which the caller must not change any more.
	// What happens when the client does not read is the transport's business:
	// it may block (stdio), or end the session (HTTP). The error says that the
	// stream has broken, or is ErrStreamClosed.
	Write(msg []byte) error
	// Request is Write for a request to the client. It may wait a little, within
	// ctx, for a client that is about to listen; the error is ErrNotListening
	// when there is none.
	Request(ctx context.Context, msg []byte) error
	// Close says that nothing more belongs to the stream: every request that
	// came with it has been answered or dropped. last is its last message, nil
	// for none. It is called once, and not for the session's own stream.
	Close(last []byte) error
	// TryClose is Close if that need not wait for the client; else it is not
	// done.
	TryClose(last []byte) (done bool, err error)
}

// ErrNotListening says that the client has no stream open on which a request
// could reach it.
var ErrNotListening = errors.New("the client is not listening (it has no GET stream open)")

// ErrStreamClosed says that nothing more can be written to a stream.
var ErrStreamClosed = errors.New("the stream has been closed")

// lines is a Stream over a byte stream of newline-delimited messages.
type lines struct{ *wire.Writer }

func (l lines) Request(_ context.Context, msg []byte) error { return l.Write(msg) }

func (l lines) Close(last []byte) error {
	if last == nil {
		return nil
	}
	return l.Write(last)
}

func (l lines) TryClose(last []byte) (done bool, err error) {
	return last == nil || l.Post(last), nil
}
