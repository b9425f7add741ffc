package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
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
