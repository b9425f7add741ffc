package files

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	flag.Parse()
	if !*storetest.Long {
		_ = flag.Set("test.parallel", "8") // parallel tests wait most of the time
	}
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// open returns the Store of a folder, with a journal of its own, as another process has it.
func open(t *testing.T, dir string, opts journal.LogOptions) *Store {
	t.Helper()
	opts.Log = quiet
	log := journal.OpenLog(filepath.Join(dir, "journal"), opts)
	s := Open(Options{Dir: dir, Journal: log, Poll: 50 * time.Millisecond, Log: quiet})
	t.Cleanup(func() {
		s.Close()
		log.Close()
	})
	return s
}

// TestStore runs the tests of all stores.
func TestStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, dir, journal.LogOptions{}) })
}

// TestRemovedBeforeItIsRead removes a document that a watch has found and not read yet: whoever
// keeps a copy up to date must hear of it.
func TestRemovedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), journal.LogOptions{})
	key := func(name string) store.Key { return store.Key{Collection: "x", Name: name} }
	put := func(name string) store.Version {
		t.Helper()
		v, err := s.Put(t.Context(), key(name), "", []byte(name))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var b store.Version
	var heard []string
	for change, err := range s.Watch(ctx, "x") {
		if err != nil {
			t.Fatal(heard, err)
		}
		heard = append(heard, fmt.Sprintf("%s=%s", change.Name, change.Data))
		switch {
		case change.Ready:
			put("a")
			b = put("b")
		case change.Name == "a":
			if err := s.Remove(t.Context(), key("b"), b); err != nil {
				t.Fatal(err)
			}
		}
		if change.Name == "b" {
			break
		}
	}
	if !slices.Equal(heard, []string{"=", "a=a", "b="}) {
		t.Errorf("%q", heard)
	}
}

// TestReplacedTwice replaces a document by another one and back while a watch does something else:
// whoever has read the other one must hear that it is not there any more.
func TestReplacedTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, journal.LogOptions{})
	key := func(name string) store.Key { return store.Key{Collection: Tools, Name: name} }
	put := func(name string, old store.Version, n int) store.Version {
		t.Helper()
		v, err := s.Put(t.Context(), key(name), old, fmt.Appendf(nil, `{"name":%q,"n":%d}`, name, n))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := put("a", "", 1)
	// The file system must not give the number of the first file to the last one.
	if err := os.Link(filepath.Join(dir, "tools", "a.json"), filepath.Join(dir, "first")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var heard []string
	for change, err := range s.Watch(ctx, Tools) {
		if err != nil {
			t.Fatal(heard, err)
		}
		heard = append(heard, string(change.Data))
		if change.Ready {
			put("a", put("a", first, 2), 1)
			put("b", "", 1)
		}
		if change.Name == "b" {
			break
		}
	}
	if a := `{"name":"a","n":1}`; !slices.Equal(heard, []string{a, "", a, `{"name":"b","n":1}`}) {
		t.Errorf("%q", heard)
	}
}

// TestLinkToNothing watches a folder in which a name is a link to nothing: that is no document, and
// none that is removed whenever somebody looks.
func TestLinkToNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, journal.LogOptions{})
	if err := os.Mkdir(filepath.Join(dir, "tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nothing", filepath.Join(dir, "tools", "a.json")); err != nil {
		t.Skip(err) // not every user of Windows may
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var version store.Version
	n := 0
	for change, err := range s.Watch(ctx, Tools) {
		if err != nil || change.Name == "a" {
			t.Fatal(change.Name, err)
		}
		if n++; n == 3 {
			return
		}
		if version, err = s.Put(t.Context(), store.Key{Collection: Tools, Name: "b"}, version, fmt.Appendf(nil, `{"name":"b","n":%d}`, n)); err != nil {
			t.Fatal(err)
		}
	}
}
