package sessions

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait.
const patience = time.Minute

// faulty is a Store whose next writes are made, but not known to be.
type faulty struct {
	store.Store
	unknown atomic.Int32
}

func (f *faulty) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	v, err := f.Store.Put(ctx, key, old, data)
	if err == nil && f.unknown.Add(-1) >= 0 {
		return "", store.ErrUnknown
	}
	return v, err
}

func open(t *testing.T) *faulty {
	t.Helper()
	return &faulty{Store: memorytest.New(t).MustOpen(t)}
}

func join(t *testing.T, docs store.Store, self string, ttl time.Duration, lost func(string) bool) *Sessions {
	t.Helper()
	s := Open(Options{
		Store: docs, Self: self, TTL: ttl, Lost: lost, Away: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func live(string) bool { return false }

// cell is the state of a session.
type cell struct {
	mu           sync.Mutex
	state, calls string
}

func (c *cell) current() (state, calls []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []byte(c.state), []byte(c.calls), c.state != ""
}

func (c *cell) set(state, calls string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.calls = state, calls
}

// until waits until something is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	docs, token := open(t), bearer.DigestOf("t")
	a, b := join(t, docs, "a", time.Hour, live), join(t, docs, "b", time.Hour, live)
	if _, err := a.Find(t.Context(), "ID"); !errors.Is(err, ErrNoSession) {
		t.Fatal(err)
	}
	var is cell
	h := a.Create("ID", token, is.current)
	if err := h.Save(t.Context()); err != nil || h.Saved() { // nothing to save yet
		t.Fatal(err, h.Saved())
	}
	is.set(`{"n":1}`, "")
	docs.unknown.Store(2)
	if err := h.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Somebody seals all documents again.
	d, err := docs.Get(t.Context(), key(h.name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := docs.Store.Put(t.Context(), d.Key, d.Version, append(d.Data, ' ')); err != nil {
		t.Fatal(err)
	}
	is.set(`{"n":2}`, `{"total":1}`)
	if err := h.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "b knows", func() bool { return b.Owner("ID") == "a" })

	f, err := b.Find(t.Context(), "ID")
	if err != nil || string(f.State) != `{"n":2}` || f.Token != token || f.Owner != "a" || f.Term != 1 {
		t.Fatalf("%+v %v", f, err)
	}
	stale := *f
	var there cell
	there.set(`{"n":2}`, `{"total":1}`)
	docs.unknown.Store(1)
	taken, calls, err := b.Take(t.Context(), f, there.current)
	if err != nil || string(calls) != `{"total":1}` || taken.Term() != 2 {
		t.Fatal(err, string(calls))
	}
	select {
	case <-h.Lost():
	case <-time.After(patience):
		t.Fatal("a does not notice")
	}
	is.set(`{"n":3}`, "")
	if err := h.Save(t.Context()); !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	h.Remove(t.Context()) // is not a's to remove
	if _, _, err := a.Take(t.Context(), &stale, is.current); !isConflict(err) {
		t.Fatal(err)
	}
	there.set(`{"n":4}`, `{"total":2}`)
	taken.Touch()
	until(t, "saved in the background", func() bool {
		f, err := a.Find(t.Context(), "ID")
		return err == nil && string(f.State) == `{"n":4}`
	})
	if err := taken.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err = a.Find(t.Context(), "ID")
	if err != nil || f.Owner != "" {
		t.Fatalf("%+v %v", f, err)
	}
	h, calls, err = a.Take(t.Context(), f, is.current)
	if err != nil || string(calls) != `{"total":2}` || h.Term() != 3 {
		t.Fatal(err, string(calls))
	}
	h.Remove(t.Context())
	if _, err := b.Find(t.Context(), "ID"); !errors.Is(err, ErrNoSession) {
		t.Fatal(err)
	}
	empty(t, docs)
	if all, unsaved := a.Held(); all != 0 || unsaved != 0 {
		t.Errorf("a has %d sessions, %d of them unsaved", all, unsaved)
	}
}

// empty checks that nothing is left.
func empty(t *testing.T, docs store.Store) {
	t.Helper()
	for _, collection := range []string{Collection, CallsCollection} {
		for d, err := range docs.Documents(t.Context(), collection) {
			t.Errorf("%s is left (%v)", d.Key, err)
		}
	}
}

// TestSweep checks that sessions of lost replicas do not stay for ever, and others do.
func TestSweep(t *testing.T) {
	t.Parallel()
	docs := open(t)
	var lost atomic.Bool
	a := join(t, docs, "a", time.Hour, live)
	b := join(t, docs, "b", time.Millisecond, func(id string) bool { return id == "a" && lost.Load() })
	var is cell
	is.set(`{}`, `{"total":1}`)
	h := a.Create("ID", bearer.Digest{}, is.current)
	if err := h.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	mine := b.Create("MINE", bearer.Digest{}, is.current)
	if err := mine.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "b knows both", func() bool { return b.Owner("ID") == "a" && b.Owner("MINE") == "b" })
	if n := len(b.expired(time.Now(), b.lostOwners())) + len(b.expired(time.Now().Add(time.Hour), b.lostOwners())); n != 0 {
		t.Fatalf("%d sessions of live replicas have expired", n)
	}
	lost.Store(true)
	select {
	case <-h.Lost():
	case <-time.After(patience):
		t.Fatal("the session stays")
	}
	if _, err := b.Find(t.Context(), "ID"); !errors.Is(err, ErrNoSession) {
		t.Fatal(err)
	}
	if _, err := a.Find(t.Context(), "MINE"); err != nil {
		t.Fatal(err)
	}
	mine.Remove(t.Context())
	until(t, "nothing is left", func() bool {
		for range docs.Documents(t.Context(), CallsCollection) {
			return false
		}
		return true
	})
	empty(t, docs)
}

// TestFormerTerm lets a replica take a session again that it had lost, while what it had before still
// saves: that has another term, and changes nothing.
func TestFormerTerm(t *testing.T) {
	t.Parallel()
	docs := open(t)
	a, b := join(t, docs, "a", time.Hour, live), join(t, docs, "b", time.Hour, live)
	var first, between, second cell
	first.set(`{"n":1}`, "")
	former := a.Create("ID", bearer.DigestOf("t"), first.current)
	if err := former.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	take := func(s *Sessions, is *cell) *Held {
		t.Helper()
		f, err := s.Find(t.Context(), "ID")
		if err != nil {
			t.Fatal(err)
		}
		h, _, err := s.Take(t.Context(), f, is.current)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	between.set(`{"n":2}`, "")
	if err := take(b, &between).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.set(`{"n":3}`, "")
	again := take(a, &second)
	if err := again.Save(t.Context()); err != nil || again.Term() != 3 {
		t.Fatal(err, again.Term())
	}
	former.saving.Lock() // as if it were still writing
	err := former.put(t.Context(), document{Owner: "a", Term: former.term, State: []byte(`{"n":9}`)})
	former.saving.Unlock()
	if !isConflict(err) { // it is not this replica's to lose, which has it
		t.Errorf("a former term: %v", err)
	}
	if f, err := b.Find(t.Context(), "ID"); err != nil || f.Term != 3 || string(f.State) != `{"n":3}` {
		t.Errorf("%+v %v", f, err)
	}
}
