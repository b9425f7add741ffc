package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// outcome is what is known after a request.
type outcome int

const (
	done      outcome = iota
	notDone           // and it never will be
	unmet             // the condition does not hold; not done
	uncertain         // the condition may not hold: somebody's message is on its way; not done
	unknown           // done, or not, or it will be
	refused           // not done, and trying again does not help
	full              // not done, since there is no room
)

// The codes of answers of JetStream (server/errors.json of nats-server).
const (
	codeInsufficientResources = 10023
	codeStorageExceeded       = 10047
	codeMemoryExceeded        = 10028
	codeStoreFailed           = 10077 // such as "maximum bytes exceeded"
)

// outcomeOf classifies the answer of a stream to a message; nil is an acknowledgement.
func outcomeOf(e *jetstream.APIError) outcome {
	if e == nil {
		return done
	}
	switch e.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence:
		return unmet
	case jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return uncertain
	case codeStoreFailed, codeInsufficientResources, codeStorageExceeded, codeMemoryExceeded:
		return full
	}
	if e.Code >= 500 { // such as no leader at the moment
		return unknown
	}
	return refused
}

// outcomeOfError classifies the lack of an answer.
func outcomeOfError(err error) outcome {
	switch {
	case errors.Is(err, nats.ErrNoResponders), // nobody has got the message
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, nats.ErrInvalidConnection):
		return notDone
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
		return refused
	}
	return unknown // also if the Store was closed while it waited
}

// temporary reports whether a request that only reads, or that can be repeated, should be
// tried again.
func temporary(err error) bool {
	var api *jetstream.APIError
	var wrong configError
	switch {
	case errors.As(err, &wrong), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, jetstream.ErrMsgNotFound),
		errors.Is(err, nats.ErrAuthorization):
		return false
	case errors.As(err, &api):
		return api.Code >= 500
	}
	return true
}

// failed returns the error of a call that did not come to an end. maybe says that it may have
// written something.
func failed(ctx context.Context, what string, maybe bool, last error) error {
	cause := last
	if ctx.Err() != nil {
		cause = errors.Join(context.Cause(ctx), last)
	}
	switch {
	case maybe:
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnknown, cause)
	case errors.Is(cause, nats.ErrConnectionClosed), errors.Is(cause, store.ErrClosed):
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, cause)
}
