package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

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

// unwritten returns the error of a call that could not write something. look is what has come of
// reading it: nothing was written only if that says so.
func (s *Store) unwritten(ctx context.Context, what string, err, look error) error {
	if errors.Is(look, errVoid) || errors.Is(look, fs.ErrNotExist) {
		return s.failed(ctx, what, err)
	}
	return unknown(what, errors.Join(err, look))
}

// unknown returns the error of a call that has written something that may not last.
func unknown(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnknown, err)
}
