package servers

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// DownError means that a request got no answer because the upstream is down. The stream has ended, the
// start failed, or we closed the upstream. The upstream may have acted on the request. Clients see
// the error, so the error does not contain the upstream's stderr. The log and Status do.
type DownError struct {
	Upstream string // name of the upstream; "" without a name
	Reason   string // the event and the advice, of bounded length
	Err      error  // cause for errors.Is, or nil; wire.ErrClosed when we closed it

	// unsent means that the upstream has certainly not acted on the request.
	unsent bool
}

func (e *DownError) Error() string {
	if e.Upstream == "" {
		return "connection: " + e.Reason
	}
	return fmt.Sprintf("upstream %q: %s", e.Upstream, e.Reason)
}

func (e *DownError) Unwrap() error { return e.Err }

// markUnsent marks err, if err is a *DownError, as the error of a request on which the upstream has
// certainly not acted. markUnsent returns other errors unchanged.
func markUnsent(err error) error {
	var down *DownError
	if !errors.As(err, &down) {
		return err
	}
	marked := *down
	marked.unsent = true
	return &marked
}

// IsUnsent reports whether err was marked by markUnsent.
func IsUnsent(err error) bool {
	var down *DownError
	return err != nil && errors.As(err, &down) && down.unsent
}

// TimeoutError means that an upstream neither answered a request nor made progress with the request
// within the configured time. The request has been cancelled at the upstream. The error does not
// match context.DeadlineExceeded, which is for limits of the caller.
type TimeoutError struct {
	Upstream string
	Method   string
	After    time.Duration
	Max      bool // After is Spec.MaxTimeout, which progress does not extend
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("upstream %q: %s", e.Upstream, e.reason()) }

func (e *TimeoutError) reason() string {
	if e.Max {
		return fmt.Sprintf("no answer to %s within %v in all (raise its %s)", e.Method, e.After, limits.RequestTotalTime.Key)
	}
	return fmt.Sprintf("no answer to %s within %v (raise its %s)", e.Method, e.After, limits.RequestTime.Key)
}

// ListError means that a list of an upstream is not used because of the list's size.
type ListError struct {
	Upstream string
	Surface  wire.Surface
	Limit    int   // of the list, in bytes; 0 if Err names the exceeded limit
	Err      error // a *budget.FullError, or nil
}

func (e *ListError) Error() string {
	return fmt.Sprintf("upstream %q: %s", e.Upstream, e.reason())
}

func (e *ListError) reason() string {
	if e.Err != nil {
		return fmt.Sprintf("its list of %s is not used: %s", e.Surface.Plural(), limits.Explain(e.Err))
	}
	return fmt.Sprintf("its list of %s is larger than %s (%s)", e.Surface.Plural(), limits.List.Format(int64(e.Limit)), limits.List.Remedy())
}

// Unwrap returns Err.
func (e *ListError) Unwrap() error { return e.Err }

// AnswerError means that an upstream's answer to a request is unusable. The answer exceeds the size
// limit (errors.As *wire.TooLargeError) or is not a JSON-RPC 2.0 response (errors.As
// *wire.RPCError). The connection remains usable.
type AnswerError struct {
	Upstream string
	Method   string
	Err      error
}

func (e *AnswerError) Error() string {
	if e.Upstream == "" {
		return fmt.Sprintf("answer to %s: %s", e.Method, limits.Explain(e.Err))
	}
	return fmt.Sprintf("upstream %q: answer to %s: %s", e.Upstream, e.Method, limits.Explain(e.Err))
}

func (e *AnswerError) Unwrap() error { return e.Err }

// Is matches wire.ErrUnusable.
func (e *AnswerError) Is(target error) bool { return target == wire.ErrUnusable }

// VersionError means that a server's answer to initialize has an unsupported protocol revision.
type VersionError struct {
	Version string // as sent by the server, shortened
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("server speaks protocol revision %q, which is none of %v (update the server)", e.Version, protocol.Handshake.Names())
}

// CallErrors makes the errors of calls to an upstream, and implements rpc.Errors. The value is the
// name of the upstream, which may be "".
type CallErrors string

var _ rpc.Errors = CallErrors("")

// Down implements rpc.Errors. The error is a *DownError.
func (e CallErrors) Down(reason string, cause error) error {
	return &DownError{Upstream: string(e), Reason: reason, Err: cause}
}

// Unsent implements rpc.Errors.
func (e CallErrors) Unsent(err error) error { return markUnsent(err) }

// Unusable implements rpc.Errors. The error is an *AnswerError.
func (e CallErrors) Unusable(method string, cause error) error {
	return &AnswerError{Upstream: string(e), Method: method, Err: cause}
}

// Timeout implements rpc.Errors. The error is a *TimeoutError.
func (e CallErrors) Timeout(method string, after time.Duration, max bool) error {
	return &TimeoutError{Upstream: string(e), Method: method, After: after, Max: max}
}
