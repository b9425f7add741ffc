package fleet

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Refresh makes every replica renew its document and waits until it is seen, so that Replicas
// says how they are now. It also returns when those that have not answered are silent, in the
// eyes of one that has or of this process, and with an error when ctx ends.
func (f *Fleet) Refresh(ctx context.Context) error {
	g := f.registry
	if err := g.await(ctx, g.isReady); err != nil {
		return err
	}
	before := g.beats()
	if err := f.ask(ctx); err != nil {
		return err
	}
	return g.await(ctx, func() bool { return g.answered(before) })
}

// await waits until done returns true after a renewal.
func (g *registry) await(ctx context.Context, done func() bool) error {
	for {
		wait := g.renewed()
		if done() {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask asks all replicas to renew their documents. Of several who ask at the same time, one is
// enough.
func (f *Fleet) ask(ctx context.Context) error {
	key := store.Key{Collection: collection, Name: askName}
	d, err := f.store.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, err = f.store.Put(ctx, key, d.Version, []byte(store.NewID().String()))
	if errors.As(err, new(*store.ConflictError)) || errors.Is(err, store.ErrUnknown) {
		return nil // somebody else has asked, or nobody answers before the next renewal
	}
	return err
}

func (g *registry) isReady() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ready
}

// renewed returns what is closed at the next renewal.
func (g *registry) renewed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.renewals
}

// beats returns how often each replica has renewed its document.
func (g *registry) beats() map[string]uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	beats := map[string]uint64{}
	for id, m := range g.members {
		beats[id] = m.Beat
	}
	return beats
}

// answered reports whether every replica that is live has renewed its document since.
func (g *registry) answered(before map[string]uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, m := range g.members {
		if m.Beat <= before[id] && g.stateLocked(m) == Live {
			return false
		}
	}
	return true
}
