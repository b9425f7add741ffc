package saved

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// AwayError is a tools.ErrAway. Its text does not have the reason, which is long and in the log.
type AwayError struct{ Err error }

func (e *AwayError) Error() string { return tools.ErrAway.Error() }

// Is makes errors.Is find tools.ErrAway.
func (e *AwayError) Is(target error) bool { return target == tools.ErrAway }

func (e *AwayError) Unwrap() error { return e.Err }

// How long one access to the store may take, and how long while it does not answer.
const (
	accessTime = 5 * time.Second
	awayTime   = time.Second
)

// shared implements tools.Shared with the store of a fleet.
type shared struct {
	store store.Store
	away  func() error
	names [3]string // of the collections, by the kind of the document
}

func (s *shared) key(d tools.Document) store.Key {
	return store.Key{Collection: s.names[d.Kind], Name: d.Name}
}

func (s *shared) access() (context.Context, context.CancelFunc) {
	if s.away() != nil {
		return context.WithTimeout(context.Background(), awayTime)
	}
	return context.WithTimeout(context.Background(), accessTime)
}

// failed returns an error for package tools.
func failed(err error) error {
	var conflict *store.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrUnknown):
		return fmt.Errorf("the store of the fleet does not answer: %w", tools.ErrUnsure)
	case errors.As(err, &conflict):
		return tools.ErrChanged
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed):
		return &AwayError{err}
	}
	return fmt.Errorf("the store of the fleet: %w", err)
}

// Get implements tools.Shared.
func (s *shared) Get(d tools.Document) (data []byte, version string, err error) {
	ctx, cancel := s.access()
	defer cancel()
	found, err := s.store.Get(ctx, s.key(d))
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", nil
	}
	return found.Data, string(found.Version), failed(err)
}

// Put implements tools.Shared.
func (s *shared) Put(d tools.Document, version string, data []byte) error {
	ctx, cancel := s.access()
	defer cancel()
	for {
		_, err := s.store.Put(ctx, s.key(d), store.Version(version), data)
		if !errors.Is(err, store.ErrUnknown) {
			return failed(err)
		}
		now, missing, looked := s.look(ctx, d)
		switch {
		case looked != nil:
			return failed(err)
		case !missing && bytes.Equal(now.Data, data):
			return nil
		case now.Version != store.Version(version):
			return failed(err) // ours may have been there
		}
	}
}

// Remove implements tools.Shared.
func (s *shared) Remove(d tools.Document, version string) error {
	ctx, cancel := s.access()
	defer cancel()
	for {
		err := s.store.Remove(ctx, s.key(d), store.Version(version))
		if !errors.Is(err, store.ErrUnknown) {
			return failed(err)
		}
		now, missing, looked := s.look(ctx, d)
		switch {
		case looked != nil:
			return failed(err)
		case missing:
			return nil
		case now.Version != store.Version(version):
			return failed(err)
		}
	}
}

// Versions implements tools.Shared.
func (s *shared) Versions(tool string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ctx, cancel := s.access()
		defer cancel()
		for d, err := range s.store.Documents(ctx, s.names[tools.OfVersion]) {
			if err != nil && d.Name == "" {
				yield(nil, failed(err))
				return
			}
			if err == nil && strings.HasPrefix(d.Name, tool+"/") && !yield(d.Data, nil) {
				return
			}
		}
	}
}

func (s *shared) look(ctx context.Context, d tools.Document) (now store.Document, missing bool, err error) {
	now, err = s.store.Get(ctx, s.key(d))
	if errors.Is(err, store.ErrNotFound) {
		return store.Document{}, true, nil
	}
	return now, false, err
}
