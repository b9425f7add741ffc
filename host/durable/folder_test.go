package durable

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// events returns the data of a log.
func events(t *testing.T, d *Folder, log string) (all []string) {
	t.Helper()
	for e, err := range d.Read(t.Context(), log, store.Position{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(e.Data))
	}
	return all
}

// TestAppend checks that an event is appended behind the position that its writer knows, by the
// last owner, or not at all.
func TestAppend(t *testing.T) {
	d, ctx := NewFolder(t.TempDir()), t.Context()
	append := func(after store.Position, fence uint64, data string) (store.Position, error) {
		return d.Append(ctx, "run", store.Entry{After: after, Fence: fence, ID: store.NewID(), Data: []byte(data)})
	}
	if _, err := append(store.Position{Number: 3}, 1, "x"); !isFenced(err) {
		t.Errorf("behind the end of a log that is not there: %v", err)
	}
	one, err := append(store.Position{}, 1, "one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := append(one, 1, "two")
	if err != nil {
		t.Fatal(err)
	}
	var conflict *store.ConflictError
	if _, err := append(one, 1, "other"); !errors.As(err, &conflict) || conflict.Last.Number != 2 {
		t.Errorf("behind an event that is not the last: %v", err)
	}
	if _, err := append(store.Position{}, 1, "begin"); !errors.As(err, &conflict) {
		t.Errorf("a second beginning: %v", err)
	}
	fenced, err := d.Fence(ctx, "run", 2)
	if err != nil || fenced.Fence != 2 || fenced.Number != 3 {
		t.Errorf("fence: %+v, %v", fenced, err)
	}
	if again, err := d.Fence(ctx, "run", 2); err != nil || again != fenced {
		t.Errorf("fence again: %+v, %v", again, err)
	}
	if _, err := d.Fence(ctx, "run", 1); !isFenced(err) {
		t.Errorf("an earlier fence: %v", err)
	}
	if _, err := append(two, 1, "stale"); !isFenced(err) {
		t.Errorf("an earlier owner: %v", err)
	}
	if _, err := append(fenced, 2, "three"); err != nil {
		t.Error(err)
	}
	if got := events(t, d, "run"); len(got) != 3 || got[2] != "three" {
		t.Errorf("events %q", got)
	}
	if err := d.Drop(ctx, "run"); err != nil {
		t.Fatal(err)
	}
	if _, err := append(fenced, 2, "late"); !isFenced(err) {
		t.Errorf("to a log that was removed: %v", err)
	}
	if _, err := d.Fence(ctx, "run", 3); !errors.Is(err, ErrNotFound) {
		t.Errorf("fence of a log that was removed: %v", err)
	}
	for _, name := range []string{"", "../x", "A", "a/b"} {
		if _, err := d.Append(ctx, name, store.Entry{Data: []byte("x")}); err == nil {
			t.Errorf("a log has the name %q", name)
		}
	}
}

func isFenced(err error) bool {
	var fenced *store.FencedError
	return errors.As(err, &fenced)
}

// TestTorn checks that an event of which the end is missing does not count, wherever it is cut
// off, and that the next one takes its place.
func TestTorn(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := NewFolder(dir)
	one, err := d.Append(ctx, "run", store.Entry{Fence: 1, Data: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(ctx, "run", store.Entry{After: one, Fence: 1, Data: []byte("two")}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "run.log")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := int(one.Mark); size < len(whole); size++ {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := events(t, d, "run"); len(got) != 1 {
			t.Errorf("%d bytes: events %q", size, got)
		}
		if _, err := d.Append(ctx, "run", store.Entry{After: one, Fence: 1, Data: []byte("again")}); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if got := events(t, d, "run"); len(got) != 2 || got[1] != "again" {
			t.Errorf("%d bytes: events %q", size, got)
		}
	}
}

// TestDocuments checks that a document is replaced only by somebody who knows its last form.
func TestDocuments(t *testing.T) {
	d, ctx := NewFolder(t.TempDir()), t.Context()
	key := store.Key{Collection: leases, Name: "run"}
	if _, err := d.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	one, err := d.Put(ctx, key, "", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	var conflict *store.ConflictError
	if _, err := d.Put(ctx, key, "", []byte("other")); !errors.As(err, &conflict) {
		t.Errorf("a second one: %v", err)
	}
	two, err := d.Put(ctx, key, one, []byte("two"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(ctx, key, one); !errors.As(err, &conflict) {
		t.Errorf("removed by somebody who does not know it: %v", err)
	}
	if err := d.Remove(ctx, key, two); err != nil {
		t.Error(err)
	}
	if _, err := d.Put(ctx, store.Key{Collection: leases, Name: "../x"}, "", nil); err == nil {
		t.Error("a document outside the folder")
	}
}

// newRuns returns the open runs of a folder for a new owner.
func newRuns(t *testing.T, d *Folder, key byte) *Runs {
	t.Helper()
	return newRunsIn(t, d, d, key)
}

// newRunsIn is newRuns with what stands between them and the folder.
func newRunsIn(t *testing.T, s Store, d *Folder, key byte) *Runs {
	t.Helper()
	aead, err := NewAEAD(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	owner, err := d.NewOwner()
	if err != nil {
		t.Fatal(err)
	}
	runs := New(Options{
		Store: s, AEAD: aead, Alive: d.Alive, Owner: func() (string, error) { return owner.Name, nil },
		Manual: true, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		if err := errors.Join(runs.Close(context.Background()), owner.Close()); err != nil {
			t.Error(err)
		}
	})
	return runs
}

const secret = "the-secret-of-the-test"

// begun returns a run with a secret in its arguments.
func begun(t *testing.T, runs *Runs) *Run {
	t.Helper()
	start := time.Now()
	b := journal.Begin{Params: []byte(`{"a":"` + secret + `"}`)}
	b.Definition.Name, b.Definition.Code = "t", "return 1"
	r, err := runs.Begin(t.Context(), journal.NewID(start), start, &b, About{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Intend(t.Context(), r.ID(), 1, "s", "t", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEncrypted checks that nothing of a log can be read without its key, and that it cannot be
// changed.
func TestEncrypted(t *testing.T) {
	dir := t.TempDir()
	d := NewFolder(dir)
	runs := newRuns(t, d, 1)
	r := begun(t, runs)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 && os.PathSeparator == '/' {
			t.Errorf("%s has mode %v", path, mode)
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte("return 1")) {
			t.Errorf("%s can be read: %q", path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := newRuns(t, d, 2).Look(t.Context(), r.ID()); err != nil || o.Err == nil {
		t.Errorf("with another key: %+v, %v", o, err)
	}
	if err := r.Intend(t.Context(), r.ID(), 2, "s", "t", []byte(`{}`)); err != nil { // two events that could come in either order
		t.Fatal(err)
	}
	path := filepath.Join(dir, r.ID()+".log")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := begun(t, runs)
	foreign, err := os.ReadFile(filepath.Join(dir, other.ID()+".log"))
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(whole)
	changed[len(changed)-1] ^= 1
	first, second := framesOf(whole), framesOf(foreign)
	swapped := slices.Concat(first[0], with(first[1], first[2]), with(first[2], first[1]))
	mixed := slices.Concat(first[0], with(first[1], second[1]), first[2])
	for name, text := range map[string][]byte{
		"that of another run": foreign, "changed": fixed(changed),
		"swapped": swapped, "mixed with an event of another run": mixed,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if o, err := runs.Look(t.Context(), r.ID()); err != nil || o.Err == nil {
			t.Errorf("a log that is %s: %+v, %v", name, o.State, err)
		}
	}
}

// framesOf returns the frames of a log.
func framesOf(log []byte) (all [][]byte) {
	for at := 0; at < len(log); {
		size := int(log[at])<<24 | int(log[at+1])<<16 | int(log[at+2])<<8 | int(log[at+3])
		all = append(all, log[at:at+frameHeader+size])
		at += frameHeader + size
	}
	return all
}

// with returns a frame with the place of one, and what another one holds.
func with(place, data []byte) []byte {
	f := frame{fence: uint64(place[15]), number: uint64(place[23]), data: data[frameHeader:]}
	return f.bytes()
}

// fixed returns a log with the right checksums.
func fixed(log []byte) []byte {
	var out []byte
	for at := int64(0); at < int64(len(log)); {
		size := int64(log[at])<<24 | int64(log[at+1])<<16 | int64(log[at+2])<<8 | int64(log[at+3])
		f := frame{
			fence:  uint64(log[at+15]), // small numbers
			number: uint64(log[at+23]), data: log[at+frameHeader : at+frameHeader+size],
		}
		out = append(out, f.bytes()...)
		at += frameHeader + size
	}
	return out
}

// TestTake checks who can take a run, and what the former owner can do then.
func TestTake(t *testing.T) {
	d := NewFolder(t.TempDir())
	first, second := newRuns(t, d, 1), newRuns(t, d, 1)
	r := begun(t, first)
	if _, _, err := second.Take(t.Context(), r.ID()); !errors.Is(err, ErrHeld) {
		t.Errorf("a run that another process is at: %v", err)
	}
	if err := first.Cancel(t.Context(), r.ID()); err != nil {
		t.Error(err)
	}
	if err := r.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	taken, state, err := second.Take(t.Context(), r.ID())
	if err != nil || state.Token != secret || state.Owners != 1 || !state.InDoubt(r.ID(), 1) {
		t.Fatalf("%+v, %v", state, err)
	}
	if o, err := first.Look(t.Context(), r.ID()); err != nil || !o.Held || !o.Cancelled {
		t.Errorf("%+v, %v", o, err)
	}
	if err := r.Intend(t.Context(), r.ID(), 2, "s", "t", nil); !errors.Is(err, ErrLost) {
		t.Errorf("the former owner writes: %v", err)
	}
	if !errors.Is(context.Cause(r.Left()), ErrLost) {
		t.Error("the former owner does not know that it has lost the run")
	}
	if err := taken.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := first.Take(t.Context(), r.ID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("a run that has ended: %v", err)
	}
	if err := first.Cancel(t.Context(), r.ID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("a run that has ended: %v", err)
	}
}

// TestSweep checks that what is left of processes that died when a run began or ended is removed
// some time later.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	d := NewFolder(dir)
	r := begun(t, newRuns(t, d, 1))
	long := time.Now().Add(-2 * remainAge)
	for _, name := range []string{"run-leases/0199-a", "run-cancels/0199-a", "0199-a.lock", "owners/none"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600), os.Chtimes(path, long, long)); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s is left", name)
			}
		}()
	}
	for _, name := range []string{r.ID() + ".log", "run-leases/" + r.ID()} {
		path := filepath.Join(dir, name)
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}()
	}
	d.sweep(time.Now())
}
