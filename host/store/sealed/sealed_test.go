package sealed

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !*storetest.Long { // the largest values take hundreds of megabytes
		_ = flag.Set("test.parallel", "8") // parallel tests wait most of the time
	}
	goleak.VerifyTestMain(m)
}

func newKey(id string) Key {
	k := Key{ID: id}
	copy(k.Secret[:], strings.Repeat(id, KeySize))
	return k
}

func newRing(t *testing.T, keys ...Key) *Ring {
	t.Helper()
	r, err := NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func openFiles(t *testing.T, dir string) store.Store {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	log := journal.OpenLog(filepath.Join(dir, "journal"), journal.LogOptions{Log: quiet})
	s := files.Open(files.Options{Dir: dir, Journal: log, Poll: 50 * time.Millisecond, Log: quiet})
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
	ring := newRing(t, newKey("a"))
	storetest.RunLargest(t, func(t *testing.T) store.Store { return New(openFiles(t, dir), ring, "fleet") })
}

// operator is a Store whose operator changes what it returns.
type operator struct {
	store.Store
	log      func(log string) string
	event    func(*store.Event)
	key      func(store.Key) store.Key
	document func(*store.Document)
}

func (o *operator) Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		for e, err := range o.Store.Read(ctx, o.log(log), after) {
			if err == nil {
				o.event(&e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (o *operator) Get(ctx context.Context, key store.Key) (store.Document, error) {
	d, err := o.Store.Get(ctx, o.key(key))
	d.Key = key
	o.document(&d)
	return d, err
}

func corrupt(err error) bool { return errors.As(err, new(*store.CorruptError)) }

// TestOperator lets the operator of the other store move and change what is sealed.
func TestOperator(t *testing.T) {
	t.Parallel()
	inner := openFiles(t, t.TempDir())
	ring := newRing(t, newKey("a"))
	s := New(inner, ring, "fleet")
	log, other := store.NewID().String(), store.NewID().String()
	var at store.Position
	for _, text := range []string{"one", "two", "three"} {
		at = storetest.Write(t, s, log, at, 5, text)
		storetest.Write(t, s, other, store.Position{}, 5, text)
		other = store.NewID().String()
	}
	storetest.Write(t, s, other, store.Position{}, 5, "one")
	all := storetest.Events(t, inner, log, store.Position{})
	key, second := store.Key{Collection: "docs", Name: "a"}, store.Key{Collection: "docs", Name: "b"}
	for _, k := range []store.Key{key, second} {
		if _, err := s.Put(t.Context(), k, "", []byte("secret "+k.Name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range all {
		if bytes.Contains(e.Data, []byte("one")) || bytes.Contains(e.Data, []byte("two")) {
			t.Errorf("it can be read: %q", e.Data)
		}
	}
	// A writer who was too late has sealed another event for the third place.
	late := store.Entry{After: all[1].Position, Fence: 5, ID: store.NewID(), Data: []byte("late")}
	opened := storetest.Events(t, s, log, store.Position{})
	late.After = opened[1].Position
	keep := &keeper{Store: inner}
	if _, err := New(keep, ring, "fleet").Append(t.Context(), log, late); err == nil {
		t.Fatal("the late event is there")
	}
	storetest.Write(t, s, log, at, 5, "four")

	same := func(log string) string { return log }
	none := func(*store.Event) {}
	for name, o := range map[string]*operator{
		"another log":   {log: func(string) string { return other }, event: none},
		"another place": {log: same, event: func(e *store.Event) { e.Data = all[(e.Position.Number)%3].Data }},
		"another number": {log: same, event: func(e *store.Event) {
			if e.Position.Number == 2 {
				e.ID, e.Data = all[2].ID, all[2].Data
			}
		}},
		"another fence": {log: same, event: func(e *store.Event) { e.Position.Fence = 6 }},
		"another id":    {log: same, event: func(e *store.Event) { e.ID[0]++ }},
		"the late event": {log: same, event: func(e *store.Event) {
			if e.Position.Number == 3 {
				e.ID, e.Data = keep.entry.ID, keep.entry.Data
			}
		}},
		"plain text": {log: same, event: func(e *store.Event) { e.Data = []byte("one") }},
		"nothing":    {log: same, event: func(e *store.Event) { e.Data = nil }},
		"short":      {log: same, event: func(e *store.Event) { e.Data = e.Data[:len(e.Data)-1] }},
	} {
		o.Store = inner
		var last error
		for _, err := range New(o, ring, "fleet").Read(t.Context(), log, store.Position{}) {
			last = err
		}
		if !corrupt(last) {
			t.Errorf("%s: %v", name, last)
		}
	}
	for i := range all[1].Data { // every byte
		o := &operator{Store: inner, log: same, event: func(e *store.Event) { e.Data[i] ^= 1 }}
		var last error
		for _, err := range New(o, ring, "fleet").Read(t.Context(), log, all[0].Position) {
			last = err
		}
		if last == nil {
			t.Errorf("byte %d is changed", i)
		}
	}
	for name, o := range map[string]*operator{
		"another document": {key: func(store.Key) store.Key { return second }, document: func(*store.Document) {}},
		"a changed one":    {key: func(k store.Key) store.Key { return k }, document: func(d *store.Document) { d.Data[len(d.Data)-1] ^= 1 }},
	} {
		o.Store = inner
		if _, err := New(o, ring, "fleet").Get(t.Context(), key); !corrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(inner, ring, "another fleet").Get(t.Context(), key); !corrupt(err) {
		t.Errorf("another fleet: %v", err)
	}
	if _, err := s.Append(t.Context(), log, store.Entry{After: all[2].Position, Fence: 5, ID: store.NewID(), Data: []byte("x")}); !errors.Is(err, errPosition) {
		t.Errorf("a position of the other store: %v", err)
	}
}

// TestDamaged puts a document that nobody has sealed between others: it keeps nobody from them.
func TestDamaged(t *testing.T) {
	t.Parallel()
	inner := openFiles(t, t.TempDir())
	s := New(inner, newRing(t, newKey("a")), "fleet")
	for _, name := range []string{"a", "b", "c"} {
		from := store.Store(s)
		if name == "b" {
			from = inner
		}
		if _, err := from.Put(t.Context(), store.Key{Collection: "docs", Name: name}, "", []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	var good, bad []string
	note := func(d store.Document, err error) {
		if corrupt(err) && d.Data == nil {
			bad = append(bad, d.Name)
		} else if err == nil {
			good = append(good, d.Name+string(d.Data))
		}
	}
	for d, err := range s.Documents(t.Context(), "docs") {
		note(d, err)
	}
	for c, err := range s.Watch(t.Context(), "docs") {
		if c.Ready {
			break
		}
		note(c.Document, err)
	}
	if !slices.Equal(good, []string{"aa", "cc", "aa", "cc"}) || !slices.Equal(bad, []string{"b", "b"}) {
		t.Errorf("good %q, bad %q", good, bad)
	}
}

// keeper keeps what somebody tried to append.
type keeper struct {
	store.Store
	entry store.Entry
}

func (k *keeper) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	k.entry = e
	k.entry.Data = bytes.Clone(e.Data)
	return k.Store.Append(ctx, log, e)
}

// TestRotation gives a fleet of two processes a new key, one after the other, while both write.
func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := newKey("a"), newKey("b")
	rings := []*Ring{newRing(t, a), newRing(t, a)}
	var fleet []*Store
	for _, r := range rings {
		fleet = append(fleet, New(openFiles(t, dir), r, "fleet"))
	}
	log := store.NewID().String()
	key := store.Key{Collection: "docs", Name: "counter"}
	still := store.Key{Collection: "docs", Name: "still"}
	if _, err := fleet[0].Put(t.Context(), still, "", []byte("still")); err != nil {
		t.Fatal(err)
	}
	digest, err := fleet[0].PutBlob(t.Context(), []byte("blob"))
	if err != nil {
		t.Fatal(err)
	}
	var at store.Position
	use := func() {
		t.Helper()
		for _, s := range fleet {
			at = storetest.Write(t, s, log, at, 0, "event")
			if err := storetest.Increment(t.Context(), s, key, "x"); err != nil {
				t.Fatal(err)
			}
			storetest.Events(t, s, log, store.Position{})
			if data, err := s.Blob(t.Context(), digest); err != nil || string(data) != "blob" {
				t.Fatal(err)
			}
		}
	}
	use()
	for _, keys := range [][]Key{{a, b}, {b, a}} {
		for _, r := range rings {
			if err := r.Set(keys...); err != nil {
				t.Fatal(err)
			}
			use()
		}
	}
	if n, err := fleet[0].Reseal(t.Context(), "docs"); err != nil || n != 1 {
		t.Fatal(n, err) // the counter was written since
	}
	if n, err := fleet[1].Reseal(t.Context(), "docs"); err != nil || n != 0 {
		t.Fatal(n, err)
	}
	if err := rings[0].Set(b); err != nil {
		t.Fatal(err)
	}
	if d, err := fleet[0].Get(t.Context(), still); err != nil || string(d.Data) != "still" {
		t.Fatal(err)
	}
	if n := storetest.Count(t, fleet[0], key); n != 10 {
		t.Fatal(n)
	}
	var missing *KeyError
	if _, err := fleet[0].Blob(t.Context(), digest); !errors.As(err, &missing) || missing.ID != "a" {
		t.Fatal(err)
	}
}

// TestBlobs checks that equal blobs are sealed equally, and others not.
func TestBlobs(t *testing.T) {
	t.Parallel()
	ring := newRing(t, newKey("a"))
	one, _ := ring.sealBlob("x", []byte("blob"))
	two, _ := ring.sealBlob("x", []byte("blob"))
	three, _ := ring.sealBlob("x", []byte("blot"))
	four, _ := ring.sealBlob("y", []byte("blob"))
	if !bytes.Equal(one, two) || bytes.Equal(one, three) || bytes.Equal(one, four) || bytes.Contains(one, []byte("blob")) {
		t.Fatal("blobs")
	}
	for i := range one {
		bad := bytes.Clone(one)
		bad[i] ^= 1
		if _, err := ring.openBlob("blob", "x", bad); err == nil {
			t.Errorf("byte %d is changed", i)
		}
	}
	if _, err := ring.openBlob("blob", "y", one); !corrupt(err) {
		t.Error(err)
	}
}

// TestParseKey checks the form of keys, and that an error does not tell them.
func TestParseKey(t *testing.T) {
	t.Parallel()
	good := "2026-11:" + strings.Repeat("QUFB", 10) + "QUE="
	if k, err := ParseKey(good + "\n"); err != nil || k.ID != "2026-11" || string(k.Secret[:]) != strings.Repeat("A", KeySize) {
		t.Fatal(k, err)
	}
	for _, bad := range []string{"", "a", ":", "a:", "A:" + good, good + "A", "a:" + strings.Repeat("QUFB", 10), strings.Repeat("a", 17) + good} {
		if _, err := ParseKey(bad); err == nil || strings.Contains(err.Error(), "QUFB") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := NewRing(); err == nil {
		t.Error("no key")
	}
	if _, err := NewRing(newKey("a"), newKey("a")); err == nil {
		t.Error("two keys with one id")
	}
}

// TestKeysOfPurposes checks that the keys for different purposes are different ones, that none is the
// secret or one that seals what is in the store, and that each key of the fleet has its own.
func TestKeysOfPurposes(t *testing.T) {
	t.Parallel()
	a, b := newKey("a"), newKey("b")
	ring := newRing(t, a, b)
	seen := map[string]string{string(a.Secret[:]): "the secret a", string(b.Secret[:]): "the secret b"}
	note := func(key []byte, what string) {
		t.Helper()
		if other, ok := seen[string(key)]; ok || len(key) != KeySize {
			t.Errorf("the key of %s (%d bytes) is also that of %s", what, len(key), other)
		}
		seen[string(key)] = what
	}
	purposes := []string{"", "peer", "plans", "journal seal", "store\x00", "a", "blob code"}
	for _, purpose := range purposes {
		keys := ring.Derive(purpose)
		if len(keys) != 2 {
			t.Fatalf("%d keys", len(keys))
		}
		for i, key := range keys {
			note(key, fmt.Sprintf("%q %d", purpose, i))
		}
		stored, err := ring.now.Load().keys["a"].key(purpose)
		if err != nil {
			t.Fatal(err)
		}
		note(stored, fmt.Sprintf("the store, %q", purpose))
	}
	if again := ring.Derive("peer"); !bytes.Equal(again[0], newRing(t, a).Derive("peer")[0]) {
		t.Error("another replica has another key for a purpose")
	}
}
