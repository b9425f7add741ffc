package clients

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Ask implements route.Origin.
func (s *Session) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return s.callClient(ctx, rpc.Call{Call: call})
}

// callClient sends a request to the client and waits for the answer. A malformed answer
// becomes a JSON-RPC error.
func (s *Session) callClient(ctx context.Context, call rpc.Call) (wire.Reply, error) {
	reply, err := s.conn.Call(ctx, call)
	var malformed *malformedError
	switch {
	case err == nil:
		return reply, nil
	case errors.As(err, &malformed):
		return fail(wire.CodeInternal, "the client's answer is malformed: %v", malformed), nil
	case ctx.Err() == nil && s.conn.Err() != nil:
		return wire.Reply{}, wire.ErrClosed
	}
	return wire.Reply{}, err
}

// malformedError is the error for an unusable answer to a request.
type malformedError struct{ err error }

func (e *malformedError) Error() string {
	var bad *wire.RPCError
	if errors.As(e.err, &bad) {
		return bad.Message
	}
	return e.err.Error()
}

func (e *malformedError) Unwrap() error { return e.err }

// callErrors makes the errors of calls of the client.
type callErrors struct{}

// Down implements rpc.Errors.
func (callErrors) Down(reason string, cause error) error {
	return fmt.Errorf("client: %s: %w", reason, errors.Join(wire.ErrClosed, cause))
}

// Unsent implements rpc.Errors. A call of the client is never repeated.
func (callErrors) Unsent(err error) error { return err }

// Unusable implements rpc.Errors.
func (callErrors) Unusable(_ string, cause error) error { return &malformedError{cause} }

// Timeout implements rpc.Errors. Calls of the client have no time limit, so rpc never calls
// Timeout.
func (callErrors) Timeout(method string, after time.Duration, _ bool) error {
	return fmt.Errorf("client: no answer to %s within %v: %w", method, after, context.DeadlineExceeded)
}
