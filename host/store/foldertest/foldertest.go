// Package foldertest has a place for tests that fleets share, where their subject is not NATS: a
// folder, to which there are links that a test cuts. It starts at once, and that it is away is
// noticed at once. [Link.URL] looks like the address of a NATS server, for configurations.
package foldertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// Link is a way to a folder, for any number of processes. It is a folder, too, so that they need
// nothing but its URL.
type Link struct{ dir, to string }

// A link has the path of the folder in the file "to", and is cut while there is the file "cut". Names
// of methods that fail because of that are lines of "refused".
const (
	toFile      = "to"
	cutFile     = "cut"
	refusedFile = "refused"
	lostFile    = "lost" // in the folder
)

// begin begins the names of links, and domain ends the hosts of their URLs.
const (
	begin  = "metatool-link-"
	domain = ".folder.test"
)

// New returns a link to a new folder. Both are removed when the test ends.
func New(t testing.TB) *Link {
	t.Helper()
	return newLink(t, t.TempDir())
}

// Another returns another link to the same folder.
func (l *Link) Another(t testing.TB) *Link {
	t.Helper()
	return newLink(t, l.to)
}

func newLink(t testing.TB, to string) *Link {
	t.Helper()
	dir, err := os.MkdirTemp("", begin)
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.WriteFile(filepath.Join(dir, toFile), []byte(to), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Link{dir, to}
}

// URL returns the address of the link.
func (l *Link) URL() string {
	return "nats://" + strings.TrimPrefix(filepath.Base(l.dir), begin) + domain + ":4222"
}

// Dir returns the folder that the link leads to.
func (l *Link) Dir() string { return l.to }

// Find returns the link with a URL; ok is false if the URL is that of something else.
func Find(url string) (l *Link, ok bool) {
	name, ok := strings.CutSuffix(strings.TrimPrefix(url, "nats://"), domain+":4222")
	if !ok {
		return nil, false
	}
	dir := filepath.Join(os.TempDir(), begin+name)
	to, err := os.ReadFile(filepath.Join(dir, toFile))
	return &Link{dir, string(to)}, err == nil
}

// Cut cuts the link, or heals it. While it is cut, calls fail at once, and each reader that follows a log or
// watches documents waits.
func (l *Link) Cut(cut bool) {
	path := filepath.Join(l.dir, cutFile)
	var err error
	if cut {
		err = os.WriteFile(path, nil, 0o600)
	} else if err = os.Remove(path); os.IsNotExist(err) {
		err = nil
	}
	if err != nil {
		panic(err)
	}
}

// AwaitRefused waits until a call of a method, in any process, has failed because the link is cut.
func (l *Link) AwaitRefused(t testing.TB, method string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(every) {
		data, _ := os.ReadFile(filepath.Join(l.dir, refusedFile))
		if bytes.Contains(data, []byte(method+"\n")) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %s was refused, only %q", method, data)
		}
	}
}

// patience bounds every wait.
const patience = time.Minute

// errCut is why a store is not available.
var errCut = fmt.Errorf("%w: the link to its folder is cut", store.ErrUnavailable)

// errLost is why a store is not available that was lost.
var errLost = fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrMissing)

// check returns errCut if the link is cut, and errLost if the folder was lost.
func (l *Link) check() error {
	if _, err := os.Stat(filepath.Join(l.dir, cutFile)); err == nil {
		return errCut
	}
	if _, err := os.Stat(filepath.Join(l.to, lostFile)); err == nil {
		return errLost
	}
	return nil
}

// Lose makes every call fail as if NATS had lost its streams, until MakeAgain. What is in the folder
// stays.
func (l *Link) Lose(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.to, lostFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// MakeAgain makes what was lost again, and reports whether something was.
func (l *Link) MakeAgain() bool { return os.Remove(filepath.Join(l.to, lostFile)) == nil }

// poll is how often changes are looked for, in addition to the notifications of the system: those of a
// collection that has no folder yet are only found so.
const poll = 50 * time.Millisecond

// every is how often it is looked whether a link that is cut has healed.
const every = 2 * time.Millisecond

// healed waits until the link is not cut, or ctx ends, and reports which.
func (l *Link) healed(ctx context.Context) bool {
	for errors.Is(l.check(), errCut) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(testenv.Quiet(every)):
		}
	}
	return true
}

// Open opens a store of a process in the folder. It waits until the link is not cut, or ctx ends.
// The caller must Close it.
func (l *Link) Open(ctx context.Context) (*Store, error) {
	if !l.healed(ctx) {
		return nil, fmt.Errorf("%w: %w", errCut, context.Cause(ctx))
	}
	if err := l.check(); errors.Is(err, store.ErrMissing) {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	s := &Store{link: l, journal: journal.OpenLog(filepath.Join(l.to, "journal"), journal.LogOptions{Log: quiet})}
	s.files = files.Open(files.Options{Dir: l.to, Journal: s.journal, Poll: poll, Log: quiet})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// MustOpen is Open for a test, which closes the store when it ends.
func (l *Link) MustOpen(t testing.TB) *Store {
	t.Helper()
	s, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Store is a [store.Store] at the end of a link.
type Store struct {
	link    *Link
	files   *files.Store
	journal *journal.Log
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
}

var _ store.Store = (*Store)(nil)

// Close implements [store.Store].
func (s *Store) Close() error {
	s.cancel()
	err := s.files.Close()
	s.journal.Close()
	return err
}

// reach returns what a call returns, unless the link is cut.
func reach[V any](s *Store, method string, call func() (V, error)) (V, error) {
	if err := s.link.check(); err != nil {
		var none V
		return none, errors.Join(err, s.link.refused(method))
	}
	return call()
}

// refused notes that a call has failed.
func (l *Link) refused(method string) error {
	f, err := os.OpenFile(filepath.Join(l.dir, refusedFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(method + "\n")
	return errors.Join(err, f.Close())
}

// Append implements [store.Store], and so do the methods below.
func (s *Store) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	return reach(s, "Append", func() (store.Position, error) { return s.files.Append(ctx, log, e) })
}

func (s *Store) Fence(ctx context.Context, log string, number uint64) (store.Position, error) {
	return reach(s, "Fence", func() (store.Position, error) { return s.files.Fence(ctx, log, number) })
}

func (s *Store) Last(ctx context.Context, log string) (store.Event, error) {
	return reach(s, "Last", func() (store.Event, error) { return s.files.Last(ctx, log) })
}

func (s *Store) Whole(ctx context.Context, log string) error {
	_, err := reach(s, "Whole", func() (none struct{}, err error) { return none, s.files.Whole(ctx, log) })
	return err
}

func (s *Store) Drop(ctx context.Context, log string) error {
	_, err := reach(s, "Drop", func() (none struct{}, err error) { return none, s.files.Drop(ctx, log) })
	return err
}

func (s *Store) Get(ctx context.Context, key store.Key) (store.Document, error) {
	return reach(s, "Get", func() (store.Document, error) { return s.files.Get(ctx, key) })
}

func (s *Store) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	return reach(s, "Put", func() (store.Version, error) { return s.files.Put(ctx, key, old, data) })
}

func (s *Store) Remove(ctx context.Context, key store.Key, old store.Version) error {
	_, err := reach(s, "Remove", func() (none struct{}, err error) { return none, s.files.Remove(ctx, key, old) })
	return err
}

// Collections returns the names of collections, as package jetstream does.
func (s *Store) Collections(context.Context) ([]string, error) {
	return reach(s, "Collections", func() ([]string, error) {
		names := []string{files.Tools, files.History, files.Approvals, files.Remembered}
		entries, err := os.ReadDir(filepath.Join(s.link.to, "documents"))
		if os.IsNotExist(err) {
			err = nil
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		return names, err
	})
}

func (s *Store) PutBlob(ctx context.Context, data []byte) (store.Digest, error) {
	return reach(s, "PutBlob", func() (store.Digest, error) { return s.files.PutBlob(ctx, data) })
}

func (s *Store) Blob(ctx context.Context, digest store.Digest) ([]byte, error) {
	return reach(s, "Blob", func() ([]byte, error) { return s.files.Blob(ctx, digest) })
}

func (s *Store) DropBlob(ctx context.Context, digest store.Digest) error {
	_, err := reach(s, "DropBlob", func() (none struct{}, err error) { return none, s.files.DropBlob(ctx, digest) })
	return err
}

func (s *Store) Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return listed(s, s.files.Read(ctx, log, after))
}

func (s *Store) Logs(ctx context.Context) iter.Seq2[store.LastEvent, error] {
	return listed(s, s.files.Logs(ctx))
}

func (s *Store) Documents(ctx context.Context, collection string) iter.Seq2[store.Document, error] {
	return listed(s, s.files.Documents(ctx, collection))
}

// listed ends a list with an error when the link is cut.
func listed[V any](s *Store, all iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var none V
		if err := s.link.check(); err != nil {
			yield(none, err)
			return
		}
		for v, err := range all {
			if cut := s.link.check(); cut != nil {
				yield(none, cut)
				return
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

func (s *Store) Follow(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return awaited(ctx, s, s.files.Follow(ctx, log, after))
}

func (s *Store) Watch(ctx context.Context, collection string) iter.Seq2[store.Change, error] {
	return awaited(ctx, s, s.files.Watch(ctx, collection))
}

// awaited keeps what changes while the link is cut until it has healed.
func awaited[V any](ctx context.Context, s *Store, all iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		for v, err := range all {
			s.link.healed(ctx) // what ends ctx ends all, too
			if !yield(v, err) {
				return
			}
		}
	}
}
