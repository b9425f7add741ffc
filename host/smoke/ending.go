package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// timeoutError is the cause of a context when a check has taken too long.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string {
	return "no answer within " + units.FormatDuration(e.limit) + " (timeout of the check, or of [smoke])"
}

// errCancelled is the cause of a context that ended after cancel_after.
var errCancelled = errors.New("cancelled after cancel_after")

// failedError says why a check failed without an answer.
type failedError struct{ reason string }

func (e *failedError) Error() string { return e.reason }

// withTimeout returns a context that ends at the timeout of the check.
func withTimeout(ctx context.Context, c *Check, f *File) (context.Context, context.CancelFunc) {
	limit := cmp.Or(c.Timeout, f.Timeout)
	return context.WithTimeoutCause(ctx, limit, &timeoutError{limit})
}

// withCancelAfter returns a context that ends after the cancel_after of the check.
func (c *Check) withCancelAfter(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.CancelAfter == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.CancelAfter, errCancelled)
}

// endError translates the error of a call: nil if the call was cancelled as intended, a failedError
// for a failure, or the cause of ctx if the run is ending.
func (c *Check) endError(ctx context.Context, a *answer, err error) error {
	cause := context.Cause(ctx)
	var late *timeoutError
	switch {
	case errors.Is(cause, errCancelled):
		a.cancelled = true
		return nil
	case errors.As(cause, &late):
		return &failedError{late.Error()}
	case ctx.Err() != nil:
		return cause
	}
	return &failedError{fmt.Sprintf("no answer: %v", err)}
}
