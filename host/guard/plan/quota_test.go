package plan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// quotaStores returns stores of each kind whose owners can have four plans, and the clock of both.
func quotaStores(t *testing.T) (all map[string]*Store, now *time.Time) {
	at := testPlan().Created
	clock := func() time.Time { return at }
	small := quota{plans: 4, bytes: 1 << 20}
	local := &folder{dir: t.TempDir(), now: clock, most: small}
	fleet := InFleet(memorytest.New(t).MustOpen(t), clock).(*shared)
	fleet.most = small
	all = map[string]*Store{}
	for name, place := range map[string]Place{"folder": local, "fleet": fleet} {
		all[name] = NewStoreIn(place, requeststate.New(requeststate.NewKey, clock), clock)
	}
	return all, &at
}

// planOf returns a plan of an owner that is good for that long, with code of that many bytes.
func planOf(owner string, now time.Time, good time.Duration, size int) *File {
	p := testPlan()
	p.ID, p.Created, p.Expires = journal.NewID(now), now, now.Add(good)
	p.Code = "return 1 # " + strings.Repeat("x", size)
	f := fileOf(p)
	f.owner = owner
	return f
}

// TestQuota checks that an owner's plans are bounded in number and bytes, that plans of others and
// plans that can be applied never go for another one, and that those which are done make room.
func TestQuota(t *testing.T) {
	stores, now := quotaStores(t)
	for name, s := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			there := func(files ...*File) {
				t.Helper()
				for _, f := range files {
					if got, err := s.Load(ctx, f.Plan.ID); err != nil || got.Digest != f.Digest {
						t.Errorf("plan of %q: %v", f.owner, err)
					}
				}
			}
			gone := func(f *File) {
				t.Helper()
				if _, err := s.Load(ctx, f.Plan.ID); !errors.Is(err, ErrNotFound) {
					t.Errorf("plan of %q, which is done: %v", f.owner, err)
				}
			}
			keep := func(f *File) error { *now = now.Add(time.Second); return s.Keep(ctx, f) }
			var others []*File
			for _, owner := range []string{operator, anonymous, "token other"} {
				f := planOf(owner, *now, 10*time.Hour, 30<<10)
				if err := keep(f); err != nil {
					t.Fatal(err)
				}
				others = append(others, f)
			}
			var own []*File
			for i := range 4 {
				f := planOf("token own", *now, time.Duration(i+1)*time.Hour, 10)
				if err := keep(f); err != nil {
					t.Fatal(err)
				}
				own = append(own, f)
			}
			var full *FullError
			for range 100 {
				if err := keep(planOf("token own", *now, time.Hour, 10)); !errors.As(err, &full) || full.Plans != 4 {
					t.Fatalf("one more: %v", err)
				}
			}
			first := own[0].Plan.Expires.UTC().Format(time.RFC3339)
			if text := full.Error(); !strings.Contains(text, "at most 4 with 1MiB") || !strings.Contains(text, first) {
				t.Error(text)
			}
			there(append(others, own...)...)

			if _, err := s.Claim(ctx, own[2]); err != nil { // applied: there as long as there is room
				t.Fatal(err)
			}
			there(own...)
			f := planOf("token own", *now, 10*time.Hour, 10)
			if err := keep(f); err != nil {
				t.Fatal(err)
			}
			gone(own[2])
			if used, err := s.Applied(ctx, own[2].Digest); err != nil || used == nil {
				t.Errorf("it can be applied again: %v, %v", used, err)
			}
			*now = own[0].Plan.Expires.Add(time.Minute) // expired: so, too
			there(append(others, own[0], own[1], own[3], f)...)
			if err := keep(planOf("token own", *now, time.Hour, 10)); err != nil {
				t.Fatal(err)
			}
			gone(own[0])
			there(append(others, own[1], own[3], f)...)

			for i := range 3 {
				f := planOf("token large", *now, time.Hour, 400<<10)
				if err := keep(f); (i < 2) != (err == nil) || err != nil && !errors.As(err, &full) {
					t.Errorf("%d large ones: %v", i+1, err)
				}
			}
			if ids, err := s.List(ctx); err != nil || len(ids) != 3+4+2 {
				t.Errorf("%d plans are listed: %v", len(ids), err)
			}
			*now = now.Add(keptAfter + 24*time.Hour)
			s.clean(ctx)
			if ids, err := s.List(ctx); err != nil || len(ids) != 0 {
				t.Errorf("%d plans are there long after they have expired: %v", len(ids), err)
			}
		})
	}
}

// TestUsualQuota checks what one owner can leave on the disk: 45 plans of 15 MB less than 512 MB.
func TestUsualQuota(t *testing.T) {
	now := testPlan().Created
	for _, good := range []time.Duration{time.Hour, -time.Hour} { // open, and done
		var all []entry
		for i := range 45 {
			one := entry{ID: fmt.Sprint(i), Size: 15 << 20, Done: now.Add(good)}
			if _, left, err := usual.room(all, one, now); err == nil {
				all = left
			}
		}
		total := int64(0)
		for _, e := range all {
			total += e.Size
		}
		if total == 0 || total >= 512<<20 || total > usual.bytes {
			t.Errorf("%d plans with %d bytes", len(all), total)
		}
	}
}

// TestPlansInFolder checks that plans of different owners are in different folders, and that
// nothing else in the folder counts.
func TestPlansInFolder(t *testing.T) {
	stores, now := quotaStores(t)
	s := stores["folder"]
	dir := s.place.(*folder).dir
	for _, name := range []string{"x.json", ownerPrefix + "x", "applied"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, owner := range []string{operator, anonymous, "token a", "token b"} {
		if err := s.Keep(t.Context(), planOf(owner, *now, time.Hour, 1)); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]int{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[filepath.Dir(path)]++
		}
		return err
	})
	if len(files) != 4 || files[dir] != 1 {
		t.Errorf("%v", files)
	}
}

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
