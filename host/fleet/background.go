package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// background is a Store that is being opened: its calls wait for that until their context ends.
type background struct {
	ready chan struct{} // closed by opened or Close

	mu     sync.Mutex // a leaf
	closed bool
	inner  store.Store
	err    error // why there is no inner
}

var _ store.Store = (*background)(nil)

func newBackground() *background { return &background{ready: make(chan struct{})} }

// opened ends the waiting.
func (b *background) opened(inner store.Store, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		if inner != nil {
			_ = inner.Close()
		}
		return
	}
	b.inner, b.err = inner, err
	close(b.ready)
}

// Close implements [store.Store].
func (b *background) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if b.inner != nil {
		return b.inner.Close()
	}
	if b.err == nil {
		b.err = store.ErrClosed
		close(b.ready)
	}
	return nil
}

// get waits for the Store.
func (b *background) get(ctx context.Context) (store.Store, error) {
	select {
	case <-b.ready:
	default:
		select {
		case <-b.ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, store.ErrClosed
	case errors.Is(b.err, store.ErrUnavailable):
		return nil, b.err
	case b.err != nil:
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, b.err)
	}
	return b.inner, nil
}

func get[T any](ctx context.Context, b *background, f func(store.Store) (T, error)) (T, error) {
	s, err := b.get(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return f(s)
}

func (b *background) do(ctx context.Context, f func(store.Store) error) error {
	s, err := b.get(ctx)
	if err != nil {
		return err
	}
	return f(s)
}

func each[T any](ctx context.Context, b *background, f func(store.Store) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		s, err := b.get(ctx)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		f(s)(yield)
	}
}

// endless is each for what just ends with ctx.
func endless[T any](ctx context.Context, b *background, f func(store.Store) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range each(ctx, b, f) {
			if err != nil && ctx.Err() != nil {
				return
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

func (b *background) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	return get(ctx, b, func(s store.Store) (store.Position, error) { return s.Append(ctx, log, e) })
}

func (b *background) Fence(ctx context.Context, log string, number uint64) (store.Position, error) {
	return get(ctx, b, func(s store.Store) (store.Position, error) { return s.Fence(ctx, log, number) })
}

func (b *background) Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return each(ctx, b, func(s store.Store) iter.Seq2[store.Event, error] { return s.Read(ctx, log, after) })
}

func (b *background) Follow(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return endless(ctx, b, func(s store.Store) iter.Seq2[store.Event, error] { return s.Follow(ctx, log, after) })
}

func (b *background) Logs(ctx context.Context) iter.Seq2[store.LastEvent, error] {
	return each(ctx, b, func(s store.Store) iter.Seq2[store.LastEvent, error] { return s.Logs(ctx) })
}

func (b *background) Last(ctx context.Context, log string) (store.Event, error) {
	return get(ctx, b, func(s store.Store) (store.Event, error) { return s.Last(ctx, log) })
}

func (b *background) Whole(ctx context.Context, log string) error {
	return b.do(ctx, func(s store.Store) error { return s.Whole(ctx, log) })
}

func (b *background) Drop(ctx context.Context, log string) error {
	return b.do(ctx, func(s store.Store) error { return s.Drop(ctx, log) })
}

func (b *background) Get(ctx context.Context, key store.Key) (store.Document, error) {
	return get(ctx, b, func(s store.Store) (store.Document, error) { return s.Get(ctx, key) })
}

func (b *background) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	return get(ctx, b, func(s store.Store) (store.Version, error) { return s.Put(ctx, key, old, data) })
}

func (b *background) Remove(ctx context.Context, key store.Key, old store.Version) error {
	return b.do(ctx, func(s store.Store) error { return s.Remove(ctx, key, old) })
}

func (b *background) Documents(ctx context.Context, collection string) iter.Seq2[store.Document, error] {
	return each(ctx, b, func(s store.Store) iter.Seq2[store.Document, error] { return s.Documents(ctx, collection) })
}

func (b *background) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	return endless(ctx, b, func(s store.Store) iter.Seq2[store.Change, error] { return s.Watch(ctx, collection) })
}

func (b *background) PutBlob(ctx context.Context, data []byte) (store.Digest, error) {
	return get(ctx, b, func(s store.Store) (store.Digest, error) { return s.PutBlob(ctx, data) })
}

func (b *background) Blob(ctx context.Context, digest store.Digest) ([]byte, error) {
	return get(ctx, b, func(s store.Store) ([]byte, error) { return s.Blob(ctx, digest) })
}

func (b *background) DropBlob(ctx context.Context, digest store.Digest) error {
	return b.do(ctx, func(s store.Store) error { return s.DropBlob(ctx, digest) })
}

// Closed returns a Store that could not be opened. Its methods return why, as
// store.ErrUnavailable.
func Closed(why error) store.Store {
	b := newBackground()
	b.opened(nil, why)
	return b
}
