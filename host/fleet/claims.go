package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Claims are rights of which one replica gets each, such as that to continue a run. They are kept
// in logs, so that they are removed when the records of the runs are.
type Claims struct {
	// Store is that of the fleet.
	Store store.Store
	// By is who claims something, for people.
	By string
}

// ErrClaimed says that somebody else has the right.
var ErrClaimed = errors.New("another replica has it already")

// ClaimError says that it could not be decided who has a right.
type ClaimError struct{ Err error }

func (e *ClaimError) Error() string {
	return fmt.Sprintf("the store of the fleet, which decides who goes on, cannot be used now: %v", e.Err)
}

// Unwrap returns the cause.
func (e *ClaimError) Unwrap() error { return e.Err }

// claimTime bounds how long a claim waits for the store.
const claimTime = 10 * time.Second

// claimAgain is how long a claim waits before it asks again what has become of it.
const claimAgain = 50 * time.Millisecond

// The events of the log of a claim; what follows them is for people.
const (
	taken = 't'
	given = 'g'
)

func claimLog(id string) string { return "claim-" + id }

// Claim takes a right. The error is ErrClaimed if somebody has it, and a [*ClaimError] if the
// store does not say: then this caller does not have it, but perhaps nobody else gets it either.
func (c Claims) Claim(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), claimTime)
	defer cancel()
	last, err := c.Store.Last(ctx, claimLog(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		last = store.Event{}
	case err != nil:
		return &ClaimError{err}
	case len(last.Data) == 0 || last.Data[0] != given:
		return ErrClaimed
	}
	return c.append(ctx, id, last.Position, taken)
}

// Release gives a right back.
func (c Claims) Release(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), claimTime)
	defer cancel()
	last, err := c.Store.Last(ctx, claimLog(id))
	if err != nil {
		return &ClaimError{err}
	}
	return c.append(ctx, id, last.Position, given)
}

func (c Claims) append(ctx context.Context, id string, after store.Position, what byte) error {
	e := store.Entry{After: after, ID: store.NewID(), Data: append([]byte{what, ' '}, c.By...)}
	for {
		_, err := c.Store.Append(ctx, claimLog(id), e)
		conflict, unknown := errors.As(err, new(*store.ConflictError)), errors.Is(err, store.ErrUnknown)
		switch {
		case err == nil:
			return nil
		case conflict && !unknown:
			return ErrClaimed
		case !unknown || conflict:
			return &ClaimError{err}
		}
		select {
		case <-ctx.Done():
			return &ClaimError{err}
		case <-time.After(claimAgain):
		}
	}
}
