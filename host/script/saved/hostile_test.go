package saved

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// force writes a document whatever it was; nil removes it.
func (f *fleet) force(t *testing.T, key store.Key, data []byte) {
	t.Helper()
	d, err := f.Store.Get(t.Context(), key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if data == nil {
		err = f.Store.Remove(t.Context(), key, d.Version)
	} else {
		_, err = f.Store.Put(t.Context(), key, d.Version, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHostile has a fleet whose documents somebody changes who may not: the copies stay, and the
// next change of a tool mends it.
func TestHostile(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := join(t, f, t.TempDir(), ""), join(t, f, t.TempDir(), "")
	key := func(name string) store.Key { return store.Key{Collection: files.Tools, Name: name} }
	a.save(t, "one", "1")
	a.save(t, "two", "1")
	a.save(t, "three", "1")
	old, err := f.Get(t.Context(), key("one"))
	if err != nil {
		t.Fatal(err)
	}
	b.await(t, "one=1", "three=1", "two=1")
	a.save(t, "one", "2")
	b.await(t, "one=2", "three=1", "two=1")
	f.force(t, key("one"), old.Data)
	f.force(t, key("two"), []byte(`{"name":"two"`))
	f.force(t, key("three"), nil)
	f.force(t, key("four"), []byte("garbage"))
	f.force(t, key("ONE"), []byte(strings.Replace(string(old.Data), `"one"`, `"ONE"`, 1)))
	for _, text := range []string{"has put an old one back", "two", "its history does not say that it was deleted", "four", "upper and lower case"} {
		b.log.await(t, text)
	}
	b.await(t, "one=2", "three=1", "two=1")
	b.save(t, "one", "3")
	b.save(t, "three", "3")
	a.await(t, "one=3", "three=3", "two=1")
	if err := a.Delete("three"); err != nil {
		t.Fatal(err)
	}
	b.await(t, "one=3", "two=1")
	if _, _, err := a.Save(definition("two", "2")); !errors.Is(err, tools.ErrChanged) {
		t.Errorf("over garbage: %v", err)
	}
	// Without the garbage, the copies are all there is, and can be saved again.
	f.force(t, key("two"), nil)
	b.log.await(t, `tool \"two\": is in the folder`)
	b.save(t, "two", "2")
	a.await(t, "one=3", "two=2")
	b.awaitVersions(t, "one", "2 saved 2", "1 saved 1")
	b.awaitVersions(t, "two", "1 saved 1")
}

// TestEdited edits the folder of a replica by hand. The fleet's tools come back, and what was
// edited is kept beside them.
func TestEdited(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := join(t, f, t.TempDir(), "")
	for _, name := range []string{"edited", "garbage", "removed"} {
		a.save(t, name, "1")
	}
	<-a.Synced()
	path := func(name string) string { return filepath.Join(a.Dir(), name+".json") }
	good, err := os.ReadFile(path("edited"))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(name, text string) {
		t.Helper()
		if err := regular.Write(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a.log.await(t, filepath.Join(".edited", name))
	}
	edit("edited", strings.Replace(string(good), `"1"`, `"by hand"`, 1))
	edit("garbage", "garbage")
	if err := os.Remove(path("removed")); err != nil {
		t.Fatal(err)
	}
	want := []string{"edited=1", "garbage=1", "removed=1"}
	a.await(t, want...)
	kept, err := filepath.Glob(filepath.Join(a.Dir(), ".edited", "*.json"))
	if err != nil || len(kept) != 2 {
		t.Error(kept, err)
	}
	// The same while nothing runs, and with the whole folder.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := regular.Write(path("edited"), []byte(strings.Replace(string(good), `"1"`, `"again"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	a = join(t, f, a.dir, "")
	<-a.Synced()
	a.await(t, want...)
	a.log.await(t, filepath.Join(".edited", "edited"))
	if err := os.Rename(a.Dir(), filepath.Join(t.TempDir(), "gone")); err != nil {
		t.Fatal(err)
	}
	a.await(t, want...)
	a.save(t, "edited", "2")
}

// TestNotEdited checks that nobody is said to have edited a tool by hand that two replicas save one
// after the other: as it is, so that no version is kept, or before its versions have been copied.
func TestNotEdited(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := join(t, f, t.TempDir(), ""), join(t, f, t.TempDir(), "")
	a.save(t, "one", "1")
	b.await(t, "one=1")
	<-a.Synced()
	<-b.Synced()
	held := make(chan struct{})
	f.set(func() { f.history = held })
	same := func() string {
		t.Helper()
		now, err := f.Get(t.Context(), store.Key{Collection: files.Tools, Name: "one"})
		if err != nil {
			t.Fatal(err)
		}
		return string(now.Data)
	}
	copied := func(r *replica) { // waits until the replica has the same
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		want := same()
		for range r.copies.Watch(ctx, files.Tools) {
			if got, _ := os.ReadFile(filepath.Join(r.Dir(), "one.json")); string(got) == want {
				return
			}
		}
		t.Fatal("the tool does not come")
	}
	for _, text := range []string{"1", "2", "2", "3"} {
		b.save(t, "one", text)
		copied(a)
		a.save(t, "one", text)
		copied(b)
	}
	a.save(t, "one", "4")
	copied(b)
	for _, r := range []*replica{a, b} {
		r.log.mu.Lock()
		if strings.Contains(r.log.text, "edited by hand") {
			t.Error(r.log.text)
		}
		r.log.mu.Unlock()
		if kept, _ := filepath.Glob(filepath.Join(r.Dir(), ".edited", "*")); len(kept) > 0 {
			t.Error(kept)
		}
	}
	close(held)
}

// TestBefore warns of tools that were saved in files before there was a fleet.
func TestBefore(t *testing.T) {
	t.Parallel()
	f, dir := newFleet(t), t.TempDir()
	before, err := Open(Options{Place: Place{Dir: dir}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"here", "there"} {
		if _, _, err := before.Save(definition(name, "1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	elsewhere := join(t, f, t.TempDir(), "")
	elsewhere.save(t, "there", "2")
	a := join(t, f, dir, "")
	a.log.await(t, "tools=here number=1")
	a.await(t, "there=2")
}
