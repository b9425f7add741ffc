package durable

import (
	"context"
	"iter"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// shared is a Store in one that several machines share.
type shared struct{ store.Store }

var _ Store = shared{}

// Shared returns the Store in one that several machines share. That one encrypts, and what it
// has accepted survives, so that Options.AEAD is nil, and Flush does nothing.
func Shared(s store.Store) Store { return shared{s} }

// logName returns the name of the log of a run: one that the store does not remove by itself. The
// journal may have a log with the id.
func logName(run string) string { return store.LastingPrefix + run }

// Create implements Store. Behind the fence, an event is appended only while that is there.
func (s shared) Create(ctx context.Context, run string) (store.Position, error) {
	return s.Store.Fence(ctx, logName(run), firstFence)
}

// firstFence is the fencing number of the process that begins a run.
const firstFence = 1

func (s shared) Append(ctx context.Context, run string, e store.Entry) (store.Position, error) {
	return s.Store.Append(ctx, logName(run), e)
}

func (s shared) Flush(context.Context, string) error { return nil }

func (s shared) Fence(ctx context.Context, run string, number uint64) (store.Position, error) {
	return s.Store.Fence(ctx, logName(run), number)
}

// LastEvent implements Store: a server that does not know yet that it leads no more answers reads
// from before.
func (s shared) LastEvent(fence store.Position) uint64 { return fence.Number }

func (s shared) Read(ctx context.Context, run string, after store.Position) iter.Seq2[store.Event, error] {
	return s.Store.Read(ctx, logName(run), after)
}

func (s shared) Whole(ctx context.Context, run string) error {
	return s.Store.Whole(ctx, logName(run))
}

func (s shared) Drop(ctx context.Context, run string) error {
	return s.Store.Drop(ctx, logName(run))
}

// Leases implements Store. Each lease is there before its log, and until that has been removed.
func (s shared) Leases(ctx context.Context) iter.Seq2[store.Document, error] {
	return s.Documents(ctx, leases)
}
