package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func folder(t *testing.T, dir string) *files.Store {
	t.Helper()
	s := files.Open(files.Options{Dir: dir, Poll: 20 * time.Millisecond, Log: quiet})
	t.Cleanup(func() { s.Close() })
	return s
}

// put writes a document, whatever it was, and "" removes it.
func put(t *testing.T, s store.Store, collection, name, data string) {
	t.Helper()
	key := store.Key{Collection: collection, Name: name}
	d, err := get(t.Context(), s, key)
	if err == nil && data == "" {
		err = s.Remove(t.Context(), key, d.Version)
	} else if err == nil {
		_, err = s.Put(t.Context(), key, d.Version, []byte(data))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until a collection has these documents: "a=1 b=2".
func await(t *testing.T, s store.Store, collection, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all map[string]string
	for c, err := range s.Watch(ctx, collection) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case all == nil:
			all = map[string]string{}
			fallthrough
		default:
			if c.Name != "" {
				all[c.Name] = string(c.Data)
			}
			if c.Name != "" && c.Version == "" {
				delete(all, c.Name)
			}
		}
		if text(all) == want {
			return
		}
	}
	t.Fatalf("%s has %q, want %q", collection, text(all), want)
}

func text(all map[string]string) string {
	var words []string
	for _, name := range []string{"a", "b", "c", "d"} {
		if data, ok := all[name]; ok {
			words = append(words, name+"="+data)
		}
	}
	return strings.Join(words, " ")
}

// TestMirror follows changes, undoes those of the copies, and goes on after a restart.
func TestMirror(t *testing.T) {
	t.Parallel()
	from, to := folder(t, t.TempDir()), folder(t, t.TempDir())
	put(t, from, "x", "a", "1")
	put(t, from, "x", "b", "1")
	put(t, to, "y", "b", "0")
	put(t, to, "y", "c", "0")
	o := Options{From: from, To: to, Log: quiet, Collections: []Collection{{From: "x", To: "y", Restore: true}}}
	m := Start(o)
	<-m.Synced()
	await(t, to, "y", "a=1 b=1")
	put(t, from, "x", "b", "2")
	put(t, from, "x", "c", "2")
	await(t, to, "y", "a=1 b=2 c=2")
	put(t, from, "x", "a", "")
	await(t, to, "y", "b=2 c=2")
	put(t, to, "y", "b", "edited")
	put(t, to, "y", "c", "")
	put(t, to, "y", "d", "new")
	await(t, to, "y", "b=2 c=2")
	m.Close()
	put(t, from, "x", "b", "3")
	put(t, from, "x", "c", "")
	put(t, to, "y", "a", "edited")
	if err := Sync(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	await(t, to, "y", "b=3")
}

// slow is a store whose watches begin late.
type slow struct {
	store.Store
	begins chan struct{}
}

func (s *slow) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	select {
	case <-s.begins:
	case <-ctx.Done():
	}
	return s.Store.Watch(ctx, collection)
}

// TestEditedWhileItStarts edits a copy before the copies are watched: the edit counts as no change
// then, and is only undone if the copies are compared with the documents after that.
func TestEditedWhileItStarts(t *testing.T) {
	t.Parallel()
	from, to := folder(t, t.TempDir()), &slow{folder(t, t.TempDir()), make(chan struct{})}
	put(t, from, "x", "a", "1")
	m := Start(Options{From: from, To: to, Log: quiet, Collections: []Collection{{From: "x", To: "y", Restore: true}}})
	defer m.Close()
	select {
	case <-m.Synced(): // without watching
	case <-time.After(testenv.Quiet(100 * time.Millisecond)):
	}
	put(t, to, "y", "a", "edited")
	close(to.begins)
	<-m.Synced()
	await(t, to.Store, "y", "a=1")
}

// TestSeveral lets several mirrors write to one folder while documents change.
func TestSeveral(t *testing.T) {
	t.Parallel()
	from, dir := folder(t, t.TempDir()), t.TempDir()
	for range 3 {
		m := Start(Options{From: from, To: folder(t, dir), Log: quiet, Collections: []Collection{{From: "x", To: "x", Restore: true}}})
		defer m.Close()
	}
	for i := range 40 {
		put(t, from, "x", "a", fmt.Sprint(i))
		put(t, from, "x", "b", fmt.Sprint(i))
		put(t, from, "x", "b", "")
	}
	await(t, folder(t, dir), "x", "a=39")
}

// away is a store that does not answer, and whose documents can be damaged.
type away struct {
	store.Store
	mu      sync.Mutex
	off     bool
	damaged string
}

func (a *away) set(off bool, damaged string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off, a.damaged = off, damaged
}

func (a *away) Get(ctx context.Context, key store.Key) (store.Document, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.off:
		return store.Document{}, store.ErrUnavailable
	case key.Name == a.damaged:
		return store.Document{}, &store.CorruptError{What: "document", Reason: "is damaged"}
	}
	return a.Store.Get(ctx, key)
}

// TestAway checks that copies stay while the store is away, and are looked at again afterwards.
func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := &away{Store: memorytest.New(t).MustOpen(t)}, memorytest.New(t).MustOpen(t)
		put(t, from, "x", "a", "1")
		put(t, from, "x", "b", "1")
		log := &lines{want: "b: the copy stays as it is: document: is damaged", found: make(chan struct{})}
		m := Start(Options{From: from, To: to, Log: slog.New(slog.NewTextHandler(log, nil)), Collections: []Collection{{From: "x", To: "x", Restore: true}}})
		defer m.Close()
		<-m.Synced()
		from.set(true, "")
		put(t, to, "x", "a", "edited")
		put(t, from.Store, "x", "b", "2")
		synctest.Wait()
		from.set(false, "b")
		await(t, to, "x", "a=1 b=1")
		select {
		case <-log.found:
		case <-time.After(time.Minute):
			t.Fatal(log.b.String())
		}
		from.set(false, "")
		await(t, to, "x", "a=1 b=2")
	})
}

// lines is a log that waits for a text.
type lines struct {
	want  string
	found chan struct{}

	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := strings.Contains(l.b.String(), l.want)
	l.b.Write(p)
	if !before && strings.Contains(l.b.String(), l.want) {
		close(l.found)
	}
	return len(p), nil
}

// TestRefused checks that a refused change is made when it is not refused any more, and that
// names that cannot be those of copies do not stop the others.
func TestRefused(t *testing.T) {
	t.Parallel()
	from, to := folder(t, t.TempDir()), folder(t, t.TempDir())
	const tool = `{"version":"1"}`
	for _, name := range []string{"../escape", "/etc/passwd", `..\x`, "CON", ".lock", "a", strings.Repeat("x", 100)} {
		put(t, from, "x", name, tool)
	}
	var mu sync.Mutex
	refuse, asked := true, false
	check := func(name string, copied, now []byte) error {
		mu.Lock()
		defer mu.Unlock()
		asked = asked || name == "a" && copied == nil && string(now) == tool
		if refuse {
			return errors.New("not yet")
		}
		return nil
	}
	o := Options{From: from, To: to, Log: quiet, Collections: []Collection{{From: "x", To: files.Tools, Check: check}}}
	if err := Sync(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	m := Start(o)
	defer m.Close()
	<-m.Synced()
	for d, err := range to.Documents(t.Context(), files.Tools) {
		t.Errorf("%s %v is there", d.Name, err)
	}
	mu.Lock()
	refuse = false
	mu.Unlock()
	await(t, to, files.Tools, "a="+tool)
	if !asked {
		t.Error("nobody was asked")
	}
}

// held is a store that keeps what it has read from the next caller of Get until it is released.
type held struct {
	store.Store
	mu   sync.Mutex
	next *hold
}

type hold struct {
	read    chan struct{} // closed once the document has been read
	release chan struct{} // closed by the test
}

func (h *held) hold() *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = &hold{make(chan struct{}), make(chan struct{})}
	return h.next
}

func (h *held) Get(ctx context.Context, key store.Key) (store.Document, error) {
	h.mu.Lock()
	next := h.next
	h.next = nil
	h.mu.Unlock()
	d, err := h.Store.Get(ctx, key)
	if next != nil {
		close(next.read)
		<-next.release
	}
	return d, err
}

// TestRefusedMeanwhile has a change refused while somebody else compares the copy with the document
// as it was before, and sees no difference. The change is made when it is not refused any more.
func TestRefusedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := &held{Store: memorytest.New(t).MustOpen(t)}, memorytest.New(t).MustOpen(t)
		put(t, from, "x", "a", "1")
		put(t, to, "y", "a", "1")
		var refuse atomic.Bool
		check := func(string, []byte, []byte) error {
			if refuse.Load() {
				return errors.New("not yet")
			}
			return nil
		}
		log := &lines{want: "not yet", found: make(chan struct{})}
		m := Start(Options{
			From: from, To: to, Log: slog.New(slog.NewTextHandler(log, nil)),
			Collections: []Collection{{From: "x", To: "y", Check: check, Restore: true}},
		})
		defer m.Close()
		<-m.Synced()
		refuse.Store(true)
		looks := from.hold()
		put(t, to, "y", "a", "1") // by another process, so that the copy is compared
		<-looks.read
		put(t, from.Store, "x", "a", "2")
		select {
		case <-log.found: // and remembered
		case <-time.After(time.Minute):
			t.Fatal("the change was not refused")
		}
		close(looks.release)
		refuse.Store(false)
		await(t, to, "y", "a=2")
	})
}

// TestOlderWritten lets a mirror write a form of a document that is not there any more, after it
// has compared the copy with the form that is.
func TestOlderWritten(t *testing.T) {
	t.Parallel()
	from, to := &held{Store: folder(t, t.TempDir())}, folder(t, t.TempDir())
	put(t, from, "x", "a", "1")
	o := Options{From: from, To: to, Log: quiet, Collections: []Collection{{From: "x", To: "y"}}}
	if err := Sync(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	put(t, from, "x", "a", "2")
	writes := from.hold()
	done := make(chan error)
	go func() { done <- Sync(t.Context(), o) }()
	<-writes.read
	put(t, from.Store, "x", "a", "1")
	if err := Sync(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	close(writes.release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	await(t, to, "y", "a=1")
}
