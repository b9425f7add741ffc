package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

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
