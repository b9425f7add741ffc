package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Held is a lease that somebody has taken and not released. Whether its owner still lives, only
// who watches it for as long as TTL can say.
type Held struct {
	Name, Owner string
	Fence       uint64
	TTL         time.Duration
}

// List returns the leases in a Store that were not released, by name. Documents that cannot be
// read are left out.
func List(ctx context.Context, s store.Store) ([]Held, error) {
	var all []Held
	for d, err := range s.Documents(ctx, Collection) {
		if err != nil && d.Name == "" {
			return nil, err
		}
		if err != nil || d.Name == floorName {
			continue
		}
		if is, err := read(d); err == nil && !is.Free {
			all = append(all, Held{d.Name, is.Owner, is.Fence, time.Duration(is.TTL)})
		}
	}
	slices.SortFunc(all, func(a, b Held) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
