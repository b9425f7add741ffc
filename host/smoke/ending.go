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

// errTakenBack is the cause of a context when cancel_after is over.
var errTakenBack = errors.New("taken back, as the check says")

// failedError is why a check has failed without an answer to judge.
type failedError struct{ reason string }

func (e *failedError) Error() string { return e.reason }

// withTimeout is ctx for as long as a check may take.
func withTimeout(ctx context.Context, c *Check, f *File) (context.Context, context.CancelFunc) {
	limit := cmp.Or(c.Timeout, f.Timeout)
	return context.WithTimeoutCause(ctx, limit, &timeoutError{limit})
}

// takenBack is ctx until the check's call is taken back.
func (c *Check) takenBack(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.CancelAfter == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.CancelAfter, errTakenBack)
}

// ended says what it means that a call has ended with err: that it was taken back
// as it should be, that it has failed, or that the checks shall end.
func (c *Check) ended(ctx context.Context, a *answer, err error) error {
	cause := context.Cause(ctx)
	var late *timeoutError
	switch {
	case errors.Is(cause, errTakenBack):
		a.cancelled = true
		return nil
	case errors.As(cause, &late):
		return &failedError{late.Error()}
	case ctx.Err() != nil:
		return cause
	}
	return &failedError{fmt.Sprintf("no answer: %v", err)}
}
