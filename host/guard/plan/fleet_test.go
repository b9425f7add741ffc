package plan

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// replicaStore returns the plans of a replica.
func replicaStore(t *testing.T, fleet *memorytest.Link, wrap func(store.Store) store.Store) *Store {
	t.Helper()
	clock := func() time.Time { return testPlan().Created }
	return NewStoreIn(InFleet(wrap(fleet.MustOpen(t)), clock), requeststate.New(requeststate.NewKey, clock), clock)
}

func plain(s store.Store) store.Store { return s }

// unsure is a Store that does not know what has become of its first Put, which it has made, or
// not.
type unsure struct {
	store.Store
	made bool
	said atomic.Bool
}

func (s *unsure) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	if s.said.Swap(true) {
		return s.Store.Put(ctx, key, old, data)
	}
	if s.made {
		if _, err := s.Store.Put(ctx, key, old, data); err != nil {
			return "", err
		}
	}
	return "", store.ErrUnknown
}

// TestFleet keeps plans in a fleet: small and large ones are there for every replica, and each
// is applied by one, also if the answer of the store is lost.
func TestFleet(t *testing.T) {
	fleet := memorytest.New(t)
	a, b := replicaStore(t, fleet, plain), replicaStore(t, fleet, plain)
	p := testPlan()
	for _, code := range []string{"return 1", "return 1 # " + strings.Repeat("x", 3*maxInline)} {
		p.Tool, p.Code = "", code
		f := fileOf(p)
		if err := a.Keep(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		got, err := b.Load(t.Context(), p.ID)
		if err != nil || got.Digest != f.Digest || got.Plan.Code != code {
			t.Fatalf("loaded elsewhere: %v", err)
		}
	}
	if ids, err := b.List(t.Context()); err != nil || len(ids) != 1 || ids[0] != p.ID {
		t.Errorf("listed: %v, %v", ids, err)
	}
	if _, err := b.Load(t.Context(), strings.Repeat("0", 36)); !errors.Is(err, ErrNotFound) {
		t.Errorf("not there: %v", err)
	}

	f := fileOf(p)
	var wg sync.WaitGroup
	var won atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			claim, err := []*Store{a, b}[i%2].Claim(t.Context(), f)
			if err == nil {
				won.Add(1)
				err = claim.Began(t.Context(), "run")
			} else if errors.As(err, new(*AppliedError)) {
				err = nil
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if used, err := b.Applied(t.Context(), f.Digest); won.Load() != 1 || err != nil || used == nil || used.Run != "run" {
		t.Errorf("%d have got it; %+v, %v", won.Load(), used, err)
	}
	for _, made := range []bool{true, false} {
		p.Code = map[bool]string{true: "return 2", false: "return 3"}[made]
		f := fileOf(p)
		c := replicaStore(t, fleet, func(s store.Store) store.Store { return &unsure{Store: s, made: made} })
		if _, err := c.Claim(t.Context(), f); err != nil {
			t.Errorf("the answer was lost, and it was written: %v; %v", made, err)
		}
		for _, s := range []*Store{a, b, c} {
			if _, err := s.Claim(t.Context(), f); !errors.As(err, new(*AppliedError)) {
				t.Errorf("again: %v", err)
			}
		}
	}

	fleet.Cut(true)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Quiet(200*time.Millisecond))
	defer cancel()
	if _, err := a.Claim(ctx, fileOf(testPlan())); err == nil || !strings.Contains(err.Error(), "the store of the fleet") || errors.As(err, new(*AppliedError)) {
		t.Errorf("without the store: %v", err)
	}
}
