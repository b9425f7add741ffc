package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// outcome is what is known after a request. From unmet on, it is what one server
// says; see [Store.inDoubt].
type outcome int

const (
	done      outcome = iota
	notDone           // nobody has got it
	notSent           // and trying again does not help
	unknown           // done, or not, or it will be
	unmet             // the condition does not hold there
	uncertain         // the condition may not hold: somebody's message is on its way there
	refused           // trying again does not help
	full              // there is no room
	notStored         // the disk reports an error, such as that it is full; part may be there
)

// The codes of answers of JetStream (server/errors.json of nats-server).
const (
	codeAccountExceeded       = 10002
	codeNoPeers               = 10005 // also while a cluster starts, whose servers do not know each other yet
	codeInsufficientResources = 10023
	codeMemoryExceeded        = 10028
	codeStorageExceeded       = 10047
	codeStoreFailed           = 10077 // also "maximum bytes exceeded"
	codeDuplicateInProcess    = 10158
)

// inDoubt reports whether a message can be there, or will be, after a request with an outcome.
//
// In a cluster, a server that was the leader of a stream goes on taking messages until it finds
// that it is not any more. While servers find each other again after a partition, both it and
// the leader get a message, and the first answer counts. So what one server refuses another
// one may write: only what is in the stream settles it.
func (s *Store) inDoubt(out outcome) bool {
	switch out {
	case done, notDone, notSent:
		return false
	case unknown, notStored:
		return true
	}
	return !s.single()
}

// answered reports whether a server has got the message and has not written it, so that it is
// worth while to look what is there.
func (o outcome) answered() bool {
	return o == unmet || o == uncertain || o == full || o == notStored
}

// single reports whether the streams are on a server that belongs to no cluster.
func (s *Store) single() bool { return s.standalone && s.nc.ConnectedClusterName() == "" }

// unmetAt returns the sequence number of the last message that a server had when it found that a
// condition did not hold; 0 if it does not say. Errors have it in their text only, whose form
// is that of the error with the code.
func unmetAt(err error) uint64 {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		return 0
	}
	text, ok := strings.CutPrefix(api.Description, "wrong last sequence: ")
	seq, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return seq
}

// outcomeOf classifies the answer of a stream to a message; nil is an acknowledgement.
func outcomeOf(e *jetstream.APIError) outcome {
	if e == nil {
		return done
	}
	switch e.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence:
		return unmet
	case jetstream.JSErrCodeStreamWrongLastSequenceConstant, codeDuplicateInProcess:
		return uncertain
	case codeAccountExceeded, codeInsufficientResources, codeStorageExceeded, codeMemoryExceeded:
		return full
	case codeStoreFailed:
		return notStored
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
		return notSent
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
		return api.Code >= 500 || api.ErrorCode == codeNoPeers
	}
	return true
}

// isMissing reports whether an answer says that there is no such stream.
func isMissing(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound
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
	case isMissing(cause):
		return missing(what)
	case errors.Is(cause, nats.ErrConnectionClosed), errors.Is(cause, store.ErrClosed):
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, cause)
}
