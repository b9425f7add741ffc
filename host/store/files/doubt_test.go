package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// TestUnwritten checks what a writer is told when writing has failed: that nothing was written
// only if reading says so.
func TestUnwritten(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), journal.LogOptions{})
	failure := errors.New("input/output error")
	for _, c := range []struct {
		look    error
		unknown bool
	}{{errVoid, false}, {fs.ErrNotExist, false}, {nil, true}, {failure, true}, {fs.ErrPermission, true}, {store.ErrGone, true}} {
		err := s.unwritten(t.Context(), "it", failure, c.look)
		if errors.Is(err, store.ErrUnknown) != c.unknown || errors.Is(err, store.ErrUnavailable) == c.unknown || !errors.Is(err, failure) {
			t.Errorf("reading says %v: %v", c.look, err)
		}
	}
}

// TestUnsynced checks that an event that may be lost with the machine is not called written when
// it is appended again, with a journal that is synced.
func TestUnsynced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, journal.LogOptions{Sync: journal.SyncAlways})
	log, e := store.NewID().String(), store.Entry{ID: store.NewID(), Data: []byte("x")}
	at, err := s.Append(t.Context(), log, e)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Append(t.Context(), log, e); err != nil || again != at {
		t.Fatalf("again: %+v, %v", again, err)
	}
	x, err := s.openIndex(log, false)
	if err != nil {
		t.Fatal(err)
	}
	defer x.file.Close()
	path := filepath.Join(s.opts.Journal.Dir(), x.end.place.File)
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil { // which cannot be synced as a file
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), log, e); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("it cannot be synced: %v", err)
	}
	if err := errors.Join(os.Remove(path), os.Rename(path+".moved", path)); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.unsynced[log] = e.ID // as after a sync that has failed
	s.mu.Unlock()
	if _, err := s.Append(t.Context(), log, e); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("syncing it has failed: %v", err)
	}
}
