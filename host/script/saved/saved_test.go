package saved

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/tools"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// fleet is the store of a fleet, which can fail.
type fleet struct {
	store.Store
	dir string

	mu   sync.Mutex
	away bool
	// unsure makes the next Put of a tool say that it does not know, after writing or not.
	unsure, written bool
	// history, if it is set, keeps changes of versions from those who watch them until it is
	// closed.
	history chan struct{}
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	dir := t.TempDir()
	s := files.Open(files.Options{Dir: dir, Poll: 20 * time.Millisecond, Log: quiet})
	t.Cleanup(func() { s.Close() })
	return &fleet{Store: s, dir: dir}
}

func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fleet) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return fmt.Errorf("test: %w", store.ErrUnavailable)
	}
	return nil
}

func (f *fleet) Get(ctx context.Context, key store.Key) (store.Document, error) {
	if err := f.failed(); err != nil {
		return store.Document{}, err
	}
	return f.Store.Get(ctx, key)
}

func (f *fleet) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	if err := f.failed(); err != nil {
		return "", err
	}
	f.mu.Lock()
	unsure, written := f.unsure && key.Collection == files.Tools, f.written
	if unsure {
		f.unsure = false
	}
	f.mu.Unlock()
	if !unsure || written {
		v, err := f.Store.Put(ctx, key, old, data)
		if !unsure || err != nil {
			return v, err
		}
	}
	return "", fmt.Errorf("test: %w", store.ErrUnknown)
}

func (f *fleet) Remove(ctx context.Context, key store.Key, old store.Version) error {
	if err := f.failed(); err != nil {
		return err
	}
	return f.Store.Remove(ctx, key, old)
}

// Watch waits while the store is away.
func (f *fleet) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if f.failed() != nil {
			<-ctx.Done()
			return
		}
		for change, err := range f.Store.Watch(ctx, collection) {
			f.mu.Lock()
			held := f.history
			f.mu.Unlock()
			if held != nil && collection == files.History {
				select {
				case <-held:
				case <-ctx.Done():
					return
				}
			}
			if !yield(change, err) {
				return
			}
		}
	}
}

// replica is a process of the fleet.
type replica struct {
	*Tools
	dir     string
	changes chan struct{} // gets one when agents can see a change; capacity 1
	log     *recorded
}

// recorded is a log that waits for texts.
type recorded struct {
	mu   sync.Mutex
	text string
	more chan struct{} // closed and replaced with each record
}

func (r *recorded) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text += string(p)
	close(r.more)
	r.more = make(chan struct{})
	return len(p), nil
}

func (r *recorded) await(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		r.mu.Lock()
		text, more := r.text, r.more
		r.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-more:
		case <-timeout:
			t.Fatalf("the log has no %q:\n%s", want, text)
		}
	}
}

func join(t *testing.T, f *fleet, dir, token string) *replica {
	t.Helper()
	r := &replica{dir: dir, changes: make(chan struct{}, 1), log: &recorded{more: make(chan struct{})}}
	var err error
	r.Tools, err = Open(Options{
		Place: Place{Dir: dir, Fleet: "fleet", Token: token}, Store: f, Away: f.failed,
		Log: slog.New(slog.NewTextHandler(r.log, nil)),
		OnChange: func() {
			select {
			case r.changes <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// await waits until a replica has these tools, each as NAME=DESCRIPTION.
func (r *replica) await(t *testing.T, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range r.copies.Watch(ctx, files.Tools) {
		if slices.Equal(r.have(), want) {
			return
		}
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	t.Fatalf("the tools are %q, want %q\n%s", r.have(), want, r.log.text)
}

// told waits until clients are told that the tools have changed.
func (r *replica) told(t *testing.T) {
	t.Helper()
	select {
	case <-r.changes:
	case <-time.After(time.Minute):
		t.Fatal("nobody is told")
	}
}

func (r *replica) have() []string {
	var got []string
	for _, d := range r.List() {
		got = append(got, d.Name+"="+d.Description)
	}
	return got
}

func definition(name, description string) tools.Definition {
	return tools.Definition{Name: name, Description: description, InputSchema: []byte(`{"type":"object"}`), Code: "return 1"}
}

func (r *replica) save(t *testing.T, name, description string) {
	t.Helper()
	if _, _, err := r.Save(definition(name, description)); err != nil {
		t.Fatal(err)
	}
}

func (r *replica) versions(t *testing.T, name string) []string {
	t.Helper()
	all, err := r.History(name)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range all {
		if v.Problem != nil {
			t.Errorf("version %d of %s: %v", v.Number, name, v.Problem)
		}
		got = append(got, fmt.Sprintf("%d %s %s", v.Number, v.EndedBy, v.Definition.Description))
	}
	return got
}

// awaitVersions waits for the history, of which nobody is told.
func (r *replica) awaitVersions(t *testing.T, name string, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range r.copies.Watch(ctx, files.History) {
		all, err := r.History(name)
		if err != nil || len(all) == len(want) && slices.Equal(r.versions(t, name), want) {
			break
		}
	}
	if got := r.versions(t, name); !slices.Equal(got, want) {
		t.Fatalf("the versions are %q, want %q", got, want)
	}
}

// TestReplicas saves, deletes and restores tools on one replica, which the other one has then,
// with their history. Tools of a token are others.
func TestReplicas(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := join(t, f, t.TempDir(), ""), join(t, f, t.TempDir(), "")
	own, ownToo := join(t, f, a.dir, "Alice"), join(t, f, b.dir, "alice")
	a.save(t, "one", "1")
	b.told(t)
	b.await(t, "one=1")
	b.save(t, "one", "2")
	a.await(t, "one=2")
	own.save(t, "one", "own")
	ownToo.await(t, "one=own")
	if err := a.Delete("one"); err != nil {
		t.Fatal(err)
	}
	b.await(t)
	b.awaitVersions(t, "one", "2 deleted 2", "1 saved 1")
	if _, _, err := b.Revert("one", 1); err != nil {
		t.Fatal(err)
	}
	a.await(t, "one=1")
	if _, _, err := a.Import(definition("one", "imported")); err != nil {
		t.Fatal(err)
	}
	b.await(t, "one=imported")
	b.awaitVersions(t, "one", "3 imported 1", "2 deleted 2", "1 saved 1")
	ownToo.await(t, "one=own")
	// Executions are counted on each machine, and change no document.
	before, err := os.ReadFile(filepath.Join(f.dir, "tools", "one.json"))
	if err != nil {
		t.Fatal(err)
	}
	a.RecordExecution("one", time.Now())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = join(t, f, a.dir, "")
	<-a.Synced()
	after, err := os.ReadFile(filepath.Join(f.dir, "tools", "one.json"))
	if d, bad := a.Get("one"); bad != nil || d.Metadata.ExecutionCount != 1 || err != nil || string(before) != string(after) {
		t.Errorf("%d executions, %v, %v\n%s\n%s", d.Metadata.ExecutionCount, bad, err, before, after)
	}
}

// TestConcurrentSaves lets two replicas save the same tool at the same time, again and again.
// Whoever is too late is told so, and nothing that was saved is missing in the history.
func TestConcurrentSaves(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	all := []*replica{join(t, f, t.TempDir(), ""), join(t, f, t.TempDir(), "")}
	all[0].save(t, "one", "first")
	all[1].await(t, "one=first")
	var mu sync.Mutex
	saved, late := map[string]bool{"first": true}, 0
	for round := range 12 {
		var group sync.WaitGroup
		for i, r := range all {
			group.Go(func() {
				d := definition("one", fmt.Sprintf("%d of %d", round, i))
				_, _, err := r.Save(d)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					saved[d.Description] = true
				case errors.Is(err, tools.ErrChanged) && strings.Contains(err.Error(), "look at it again"):
					late++
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		now, err := f.Get(t.Context(), store.Key{Collection: files.Tools, Name: "one"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := tools.ParseFile(now.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all { // each gets what was saved last
			r.await(t, "one="+d.Description)
		}
	}
	if late+len(saved) != 1+2*12 {
		t.Errorf("%d saved, %d too late", len(saved), late)
	}
	for i, r := range all {
		now, err := r.Get("one")
		if err != nil {
			t.Fatal(err)
		}
		// A version may come a moment after the tool, and a moment after another version of the
		// same form has gone.
		found := map[string]bool{}
		var versions []tools.Version
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for range r.copies.Watch(ctx, files.History) {
			if versions, err = r.History("one"); err != nil {
				t.Fatal(err)
			}
			found = map[string]bool{now.Description: true}
			for _, v := range versions {
				if v.Problem != nil {
					t.Errorf("version %d: %v", v.Number, v.Problem)
				}
				found[v.Definition.Description] = true
			}
			if maps.Equal(found, saved) {
				break
			}
		}
		cancel()
		if !maps.Equal(found, saved) {
			t.Errorf("replica %d has %v, saved were %v", i, found, saved)
		}
		if len(versions) != len(saved)-1 {
			t.Errorf("%d versions of %d forms", len(versions), len(saved))
		}
		numbers := map[int]bool{}
		for _, v := range versions {
			numbers[v.Number] = true
		}
		if len(numbers) != len(versions) {
			t.Errorf("the numbers are %v", numbers)
		}
	}
}

// TestStoreAway reads and refuses to write while the store does not answer, and goes on after.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := join(t, f, t.TempDir(), "")
	a.save(t, "one", "1")
	f.set(func() { f.away = true })
	late := join(t, f, t.TempDir(), "") // has nothing yet
	_, _, saving := a.Save(definition("one", "2"))
	_, _, creating := a.Save(definition("two", "2"))
	for _, err := range []error{saving, creating, a.Delete("one")} {
		if !errors.Is(err, tools.ErrAway) || !strings.Contains(err.Error(), "try again later") {
			t.Error(err)
		}
	}
	a.await(t, "one=1")
	if got := a.versions(t, "one"); got != nil {
		t.Errorf("%q", got)
	}
	restarted := join(t, f, a.dir, "") // another process on this machine
	restarted.await(t, "one=1")
	late.await(t)
	f.set(func() { f.away = false })
	restarted.save(t, "one", "2")
	a.await(t, "one=2")
}

// TestUnsure finds out what became of a write without an answer.
func TestUnsure(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := join(t, f, t.TempDir(), "")
	for i, written := range []bool{true, false} {
		f.set(func() { f.unsure, f.written = true, written })
		a.save(t, "one", fmt.Sprint(i))
	}
	a.await(t, "one=1")
	a.awaitVersions(t, "one", "1 saved 0")
}

// TestRestart changes tools while a replica is down.
func TestRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := join(t, f, t.TempDir(), ""), join(t, f, t.TempDir(), "")
	a.save(t, "changed", "1")
	a.save(t, "deleted", "1")
	b.await(t, "changed=1", "deleted=1")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	a.save(t, "changed", "2")
	a.save(t, "new", "1")
	if err := a.Delete("deleted"); err != nil {
		t.Fatal(err)
	}
	b = join(t, f, b.dir, "")
	<-b.Synced()
	b.await(t, "changed=2", "new=1")
	b.awaitVersions(t, "deleted", "1 deleted 1")
	if _, err := os.Stat(filepath.Join(b.Dir(), ".edited")); !errors.Is(err, os.ErrNotExist) {
		t.Error("copies that were only old are kept")
	}
	// A command brings the copies up to date before it reads.
	dir := t.TempDir()
	c, stale, err := OpenOnce(t.Context(), Options{Place: Place{Dir: dir, Fleet: "fleet"}, Store: f, Away: f.failed, Log: quiet})
	if err != nil || stale != nil {
		t.Fatal(err, stale)
	}
	if _, err := c.Get("new"); err != nil || c.Delete("new") != nil || c.Close() != nil {
		t.Error(err)
	}
	b.await(t, "changed=2")
}
