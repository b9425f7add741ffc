package sealed

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

func (s *Store) documentPlace(key store.Key) place {
	return place{"document", []string{s.space, key.Collection, key.Name}, nil}
}

func (s *Store) openDocument(d *store.Document) error {
	plain, err := s.ring.open("document "+d.Key.String(), s.documentPlace(d.Key), d.Data)
	d.Data = plain
	return err
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key store.Key) (store.Document, error) {
	d, err := s.Store.Get(ctx, key)
	if err == nil {
		err = s.openDocument(&d)
	}
	if err != nil {
		return store.Document{}, err
	}
	return d, nil
}

// Put implements [store.Store].
func (s *Store) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	if err := errors.Join(key.Check(), store.CheckDocument(data)); err != nil {
		return "", err
	}
	sealed, err := s.ring.seal(s.documentPlace(key), nil, data)
	if err != nil {
		return "", fmt.Errorf("document %s: %w", key, err)
	}
	return s.Store.Put(ctx, key, old, sealed)
}

// Documents implements [store.Store].
func (s *Store) Documents(ctx context.Context, collection string) iter.Seq2[store.Document, error] {
	return func(yield func(store.Document, error) bool) {
		for d, err := range s.Store.Documents(ctx, collection) {
			if err == nil {
				err = s.openDocument(&d)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// Watch implements [store.Store].
func (s *Store) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		for c, err := range s.Store.Watch(ctx, collection) {
			if err == nil && c.Version != "" {
				err = s.openDocument(&c.Document)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// PutBlob implements [store.Store].
func (s *Store) PutBlob(ctx context.Context, data []byte) (store.Digest, error) {
	if err := store.CheckBlob(data); err != nil {
		return "", err
	}
	sealed, err := s.ring.sealBlob(s.space, data)
	if err != nil {
		return "", fmt.Errorf("blob: %w", err)
	}
	return s.Store.PutBlob(ctx, sealed)
}

// Blob implements [store.Store].
func (s *Store) Blob(ctx context.Context, digest store.Digest) ([]byte, error) {
	sealed, err := s.Store.Blob(ctx, digest)
	if err != nil {
		return nil, err
	}
	return s.ring.openBlob("blob "+string(digest), s.space, sealed)
}

// Reseal seals those documents of a collection with the present key that are sealed with
// another one, and returns how many. Documents that are changed in the meantime are sealed with
// it anyway, by whoever changes them.
func (s *Store) Reseal(ctx context.Context, collection string) (n int, err error) {
	for d, err := range s.Store.Documents(ctx, collection) {
		if err != nil && d.Name == "" {
			return n, err
		}
		if err != nil {
			continue // damaged: nobody can open it
		}
		head := header(s.ring.now.Load().current)
		if len(d.Data) >= len(head) && string(d.Data[:len(head)]) == string(head) {
			continue
		}
		old := d.Version
		if s.openDocument(&d) != nil {
			continue // the same
		}
		_, err = s.Put(ctx, d.Key, old, d.Data)
		if conflict := (*store.ConflictError)(nil); err != nil && !errors.As(err, &conflict) {
			return n, err
		}
		n++
	}
	return n, nil
}
