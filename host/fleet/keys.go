package fleet

import (
	"context"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// Keys returns the keys of the fleet for a purpose other than the store, of 32 bytes each. The
// first one seals, all of them open. They change when the configuration does.
func (f *Fleet) Keys(purpose string) [][]byte { return f.opts.Ring.Derive(purpose) }

// sealer is a Store that can seal with other keys what it keeps.
type sealer interface {
	store.Store
	ResealAll(ctx context.Context) (int, error)
	Uses(ctx context.Context) (map[string]sealed.Use, error)
}

// KeysChanged tells the other replicas which keys this one has now.
func (f *Fleet) KeysChanged() { f.renew() }

// Reseal seals the documents of the store with the first of several keys, and returns how many,
// and with which. It does nothing before all live replicas seal with that key, and once it has.
func (f *Fleet) Reseal(ctx context.Context) (n int, id string, err error) {
	ids := f.opts.Ring.IDs()
	if len(ids) < 2 || !f.everybodySeals(ids[0]) {
		return 0, "", nil
	}
	f.resealing.Lock()
	defer f.resealing.Unlock()
	if f.resealed == ids[0] {
		return 0, "", nil
	}
	if err := f.Reached(ctx); err != nil {
		return 0, "", err
	}
	if f.sealer == nil {
		return 0, "", nil
	}
	if n, err = f.sealer.ResealAll(ctx); err == nil {
		f.resealed = ids[0]
	}
	return n, ids[0], err
}

// everybodySeals reports whether all replicas that are live seal with a key, as far as they have
// said.
func (f *Fleet) everybodySeals(id string) bool {
	all := f.Replicas()
	return len(all) > 0 && !slices.ContainsFunc(all, func(r Replica) bool {
		return r.State == Live && (len(r.Keys) == 0 || r.Keys[0] != id)
	})
}

// KeyUses returns what is sealed with which key; see [sealed.Store.Uses].
func (f *Fleet) KeyUses(ctx context.Context) (map[string]sealed.Use, error) {
	if err := f.Reached(ctx); err != nil {
		return nil, err
	}
	if f.sealer == nil {
		return nil, nil
	}
	return f.sealer.Uses(ctx)
}
