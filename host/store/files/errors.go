package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// failed returns the error of a call that has not written anything.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	var corrupt *store.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return err
	case s.ctx.Err() != nil, errors.Is(err, journal.ErrClosed):
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	case isFull(err):
		return fmt.Errorf("%s: %w: %w", what, store.ErrFull, err)
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
}

// unknown returns the error of a call that has written something that may not last.
func unknown(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnknown, err)
}
