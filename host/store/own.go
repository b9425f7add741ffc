package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// PutOwn is [Store.Put] for data that nobody else writes, such as with an id of their own in
// them: after ErrUnknown it finds out what has become of that, while ctx allows it. Then the
// error is ErrUnknown only if ctx has ended, if the Store does not answer any more, or, with a
// [*ConflictError], if somebody has replaced what may have been that.
func PutOwn(ctx context.Context, s Store, key Key, old Version, data []byte) (Version, error) {
	for {
		version, err := s.Put(ctx, key, old, data)
		if !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
			return version, err
		}
		d, failed := s.Get(ctx, key)
		switch {
		case failed == nil && bytes.Equal(d.Data, data):
			return d.Version, nil
		case failed == nil && d.Version != old, errors.Is(failed, ErrNotFound) && old != "":
			return "", fmt.Errorf("%w: %w", ErrUnknown, &ConflictError{What: "document " + key.String()})
		case failed != nil && !errors.Is(failed, ErrNotFound):
			return "", fmt.Errorf("%w: %w", ErrUnknown, failed)
		}
		// It is as it was. Putting it again succeeds or fails for good.
	}
}
