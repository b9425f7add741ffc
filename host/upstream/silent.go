package upstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// listener is a link that knows whether anything comes from its server. One
// over HTTP is none: there each request has a connection of its own.
type listener interface {
	// heard is a number that changes with each message; it is odd while one is
	// being worked on, by us or by a client that is slow to take it.
	Heard() int64
}

// noteTimeout has serve check whether the server still responds, if err says that
// a call timed out.
func (u *Upstream) noteTimeout(err error) {
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || timeout.Max || u.spec.Restart == RestartNever {
		return
	}
	select {
	case u.timedOut <- struct{}{}:
	default: // a check is under way
	}
}

// silent asks the server for a sign of life, and is an error when there is
// none: no answer to ping, and no other message meanwhile. Such a server would
// let every call time out, for ever. One that waits for an answer of ours may
// do nothing else.
func (u *Upstream) silent(ctx context.Context, l link.Link) error {
	from, ok := l.(listener)
	if !ok || u.answering.Load() > 0 {
		return nil
	}
	before := from.Heard()
	ctx, cancel := u.deadline(ctx, protocol.MethodPing)
	defer cancel()
	_, err := l.Call(ctx, wire.Call{Method: protocol.MethodPing})
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || before%2 == 1 || from.Heard() != before || u.answering.Load() > 0 {
		return nil // the end of the link has its own error
	}
	return &DownError{Upstream: u.spec.Name, Reason: fmt.Sprintf(
		"it does not answer any more: a call had timed out, and no message came for %v after that, not even the answer to ping", timeout.After)}
}
