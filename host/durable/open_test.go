package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// keeping is a Store from which documents cannot be removed while it is away.
type keeping struct {
	Store
	away bool
}

func (k *keeping) Remove(ctx context.Context, key store.Key, old store.Version) error {
	if k.away {
		return store.ErrUnavailable
	}
	return k.Store.Remove(ctx, key, old)
}

// TestCloseWithoutStore ends a run whose lease cannot be removed. Its log stays, so that whoever
// takes the run finds that it is over, and not that its log was cut off.
func TestCloseWithoutStore(t *testing.T) {
	d := NewFolder(t.TempDir())
	s := &keeping{Store: d}
	runs := newRunsIn(t, s, d, 1)
	r := begun(t, runs)
	runs.Renew(t.Context()) // the lease says how long the log is
	s.away = true
	if err := r.Close(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("closed: %v", err)
	}
	if o, err := runs.Look(t.Context(), r.ID()); err != nil || o.Err != nil || !o.State.Over {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestCut removes the end of a log. Nobody goes on with the run, since calls would be made again.
func TestCut(t *testing.T) {
	dir := t.TempDir()
	d := NewFolder(dir)
	runs := newRuns(t, d, 1)
	r := begun(t, runs)
	path := filepath.Join(dir, r.ID()+logSuffix)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Intend(t.Context(), r.ID(), 2, "s", "t", nil); err != nil {
		t.Fatal(err)
	}
	runs.Renew(t.Context())
	if err := r.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, before.Size()); err != nil {
		t.Fatal(err)
	}
	if o, err := runs.Look(t.Context(), r.ID()); err != nil || !errors.Is(o.Err, ErrCut) {
		t.Errorf("%+v, %v", o, err)
	}
	if _, _, err := newRuns(t, d, 1).Take(t.Context(), r.ID()); !errors.Is(err, ErrCut) {
		t.Errorf("taken: %v", err)
	}
	if err := runs.Discard(t.Context(), r.ID()); err != nil {
		t.Error(err)
	}
	if _, err := runs.Look(t.Context(), r.ID()); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestOpenAs finds open runs by their records in the journal.
func TestOpenAs(t *testing.T) {
	runs := newRuns(t, NewFolder(t.TempDir()), 1)
	r, other := begun(t, runs), begun(t, runs)
	if err := r.Resumed(t.Context(), "record"); err != nil {
		t.Fatal(err)
	}
	for _, record := range []string{r.ID(), "record"} {
		if id, open, err := runs.OpenAs(t.Context(), "x", record); err != nil || !open || id != r.ID() {
			t.Errorf("%s is %q, %v, %v", record, id, open, err)
		}
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, open, err := runs.OpenAs(t.Context(), other.ID()); err != nil || open {
		t.Errorf("a run that has ended is %q, %v", id, err)
	}
}
