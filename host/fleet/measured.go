package fleet

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// measured is a Store that reports how long its calls take.
type measured struct {
	store.Store
	observe func(operation string, took time.Duration, err error)
}

// measure returns a Store that reports its calls; observe may be nil.
func measure(s store.Store, observe func(operation string, took time.Duration, err error)) store.Store {
	if observe == nil {
		return s
	}
	return measured{s, observe}
}

func timed[T any](m measured, operation string, f func() (T, error)) (T, error) {
	begun := time.Now()
	result, err := f()
	m.observe(operation, time.Since(begun), err)
	return result, err
}

func (m measured) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	return timed(m, "append", func() (store.Position, error) { return m.Store.Append(ctx, log, e) })
}

func (m measured) Fence(ctx context.Context, log string, number uint64) (store.Position, error) {
	return timed(m, "fence", func() (store.Position, error) { return m.Store.Fence(ctx, log, number) })
}

func (m measured) Get(ctx context.Context, key store.Key) (store.Document, error) {
	return timed(m, "get", func() (store.Document, error) { return m.Store.Get(ctx, key) })
}

func (m measured) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	return timed(m, "put", func() (store.Version, error) { return m.Store.Put(ctx, key, old, data) })
}

func (m measured) PutBlob(ctx context.Context, data []byte) (store.Digest, error) {
	return timed(m, "put_blob", func() (store.Digest, error) { return m.Store.PutBlob(ctx, data) })
}

func (m measured) Blob(ctx context.Context, digest store.Digest) ([]byte, error) {
	return timed(m, "blob", func() ([]byte, error) { return m.Store.Blob(ctx, digest) })
}
