package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// singleStreamLink is a link with a single stream from the server. Links over streamable HTTP are
// not: over streamable HTTP each request has a separate stream.
type singleStreamLink interface {
	// Heard returns a number that changes with each message. The number is odd while a message is
	// being processed, by us or by a slow client.
	Heard() int64
}

// noteTimeout makes serve check whether the server still responds, if err is the
// timeout of a call.
func (u *Upstream) noteTimeout(err error) {
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || timeout.Max || u.spec.Restart == RestartNever {
		return
	}
	select {
	case u.timedOut <- struct{}{}:
	default: // a check is pending
	}
}

// checkSilence sends the server a ping. checkSilence returns an error if neither the answer nor any
// other message arrives in time, because every call to a silent server would time out. A server
// that waits for an answer of ours is not checked, because the server may do nothing else.
func (u *Upstream) checkSilence(ctx context.Context, l link.Link) error {
	from, ok := below(l).(singleStreamLink)
	if !ok || u.answering.Load() > 0 {
		return nil
	}
	before := from.Heard()
	ctx, cancel := u.deadline(ctx, protocol.MethodPing)
	defer cancel()
	_, err := l.Call(ctx, wire.Call{Method: protocol.MethodPing})
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || before%2 == 1 || from.Heard() != before || u.answering.Load() > 0 {
		return nil // the end of the link has an error of its own
	}
	return &DownError{Upstream: u.spec.Name, Reason: fmt.Sprintf(
		"it no longer answers: after a call had timed out, no message came for %v, not even the answer to ping", timeout.After)}
}
