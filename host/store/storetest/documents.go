package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

func put(t *testing.T, s store.Store, key store.Key, old store.Version, text string) store.Version {
	t.Helper()
	r, err := s.Put(within(t), key, old, []byte(text))
	if err != nil || r == "" {
		t.Fatalf("%s: put %.20q on %q: %q %v", key, text, old, r, err)
	}
	return r
}

func testDocuments(t *testing.T, open Open) {
	s, other := open(t), open(t)
	key := store.Key{Collection: "documents", Name: "a"}
	_, err := s.Get(within(t), key)
	wantError(t, err, store.ErrNotFound)
	first := put(t, s, key, "", "one")
	_, err = other.Put(within(t), key, "", []byte("x"))
	wantConflict(t, err)
	second := put(t, other, key, first, "two")
	for _, old := range []store.Version{"", first, "nonsense"} {
		_, err = s.Put(within(t), key, old, []byte("x"))
		wantConflict(t, err)
		wantConflict(t, s.Remove(within(t), key, old))
	}
	if d, err := s.Get(within(t), key); err != nil || string(d.Data) != "two" || d.Version != second || d.Key != key {
		t.Fatalf("%+v %v", d, err)
	}
	if err := s.Remove(within(t), key, second); err != nil {
		t.Fatal(err)
	}
	_, err = other.Get(within(t), key)
	wantError(t, err, store.ErrNotFound)
	wantConflict(t, s.Remove(within(t), key, second))
	_, err = s.Put(within(t), key, second, []byte("x"))
	wantConflict(t, err)
	third := put(t, other, key, "", "three")
	if d, err := s.Get(within(t), key); err != nil || string(d.Data) != "three" || d.Version != third {
		t.Fatalf("%+v %v", d, err)
	}
	if third == first {
		t.Fatal("two forms have the same version")
	}
	put(t, s, store.Key{Collection: "documents", Name: "b"}, "", "b")
	put(t, s, store.Key{Collection: "documents-2", Name: "c"}, "", "c")
	if found := Documents(t, open(t), "documents"); !maps.Equal(found, map[string]string{"a": "three", "b": "b"}) {
		t.Fatalf("%v", found)
	}
	if found := Documents(t, s, "nothing"); len(found) > 0 {
		t.Fatalf("%v", found)
	}
}

// Documents returns what the documents of a collection say, by their names.
func Documents(t *testing.T, s store.Store, collection string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for d, err := range s.Documents(within(t), collection) {
		if err != nil {
			t.Fatal(err)
		}
		if _, again := found[d.Name]; again {
			t.Fatalf("%s comes twice", d.Key)
		}
		found[d.Name] = string(d.Data)
	}
	return found
}

// hostile are names that a file system, a subject or a pattern could stumble on.
var hostile = []string{
	".", "..", "../x", "a/b", "/etc/passwd", `a\b`, "C:", "con", "CON", "nul.json", "com1", "a.", " a", "a ", "*", ">", "a.*", "a.>",
	"%2e", "%", "a\nb", "a\tb", "\x00", "\x1b[31m", "ä", "a\u0308", "A", "a", "日本語", "\u202e", "-", "--help", "~", "$HOME", "'", `"`, "`",
	".lock", ".tmp-a", "a.json", "a.JSON", strings.Repeat("x", store.MaxName), strings.Repeat("語", store.MaxName/3), strings.Repeat(".", store.MaxName),
}

func testDocumentNames(t *testing.T, open Open) {
	s := open(t)
	const collection = "names"
	want := map[string]string{}
	for i, name := range hostile {
		want[name] = fmt.Sprint(i)
		put(t, s, store.Key{Collection: collection, Name: name}, "", want[name])
	}
	if found := Documents(t, open(t), collection); !maps.Equal(found, want) {
		for name := range want {
			if found[name] != want[name] {
				t.Errorf("%q: %q, want %q", name, found[name], want[name])
			}
		}
		t.Fatalf("%d documents, want %d", len(found), len(want))
	}
	for name, text := range want {
		if d, err := s.Get(within(t), store.Key{Collection: collection, Name: name}); err != nil || string(d.Data) != text {
			t.Errorf("%q: %q %v", name, d.Data, err)
		}
	}
	for _, key := range []store.Key{
		{Collection: collection}, {Name: "a"}, {Collection: "A", Name: "a"}, {Collection: "a.b", Name: "a"}, {Collection: "..", Name: "a"},
		{Collection: "a/b", Name: "a"}, {Collection: ">", Name: "a"}, {Collection: strings.Repeat("a", store.MaxCollection+1), Name: "a"},
		{Collection: collection, Name: "\xff"}, {Collection: collection, Name: strings.Repeat("x", store.MaxName+1)},
	} {
		_, get := s.Get(within(t), key)
		_, set := s.Put(within(t), key, "", nil)
		for _, err := range []error{get, set, s.Remove(within(t), key, "")} {
			if bad := (*store.NameError)(nil); !errors.As(err, &bad) {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
	for _, name := range []string{"", ">", "*", ".."} {
		for _, err := range s.Documents(within(t), name) {
			if bad := (*store.NameError)(nil); !errors.As(err, &bad) {
				t.Errorf("collection %q: %v", name, err)
			}
		}
		for _, err := range s.Watch(within(t), name) {
			if bad := (*store.NameError)(nil); !errors.As(err, &bad) {
				t.Errorf("collection %q: %v", name, err)
			}
		}
	}
}

func testDocumentSizes(t *testing.T, open Open) {
	s := open(t)
	key := store.Key{Collection: "sizes", Name: "a"}
	_, err := s.Put(within(t), key, "", make([]byte, store.MaxDocument+store.Slack+1))
	if bad := (*store.SizeError)(nil); !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var r store.Version
	sizes := []int{0, 1, 1 << 20, 3<<20 + 1, 2, 2 << 20, 4 << 20, store.MaxDocument}
	for _, size := range sizes {
		if r, err = s.Put(within(t), key, r, content(size)); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		d, err := open(t).Get(within(t), key)
		if err != nil || !bytes.Equal(d.Data, content(size)) || d.Version != r {
			t.Fatalf("%d bytes: %d %v", size, len(d.Data), err)
		}
	}
	if err := s.Remove(within(t), key, r); err != nil {
		t.Fatal(err)
	}
	if found := Documents(t, s, "sizes"); len(found) > 0 {
		t.Fatalf("%d documents", len(found))
	}
}

// testWatch watches one change after the other.
func testWatch(t *testing.T, open Open) {
	s := open(t)
	const collection = "watch"
	key := func(name string) store.Key { return store.Key{Collection: collection, Name: name} }
	first := put(t, s, key("a"), "", "one")
	gone := put(t, s, key("gone"), "", "x")
	if err := s.Remove(within(t), key("gone"), gone); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var got []string
	var second store.Version
	for c, err := range open(t).Watch(ctx, collection) {
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s=%s", c.Name, c.Data)
		switch {
		case c.Ready:
			text = "ready"
		case c.Version == "":
			text = "-" + c.Name
		}
		got = append(got, text)
		switch text {
		case "ready":
			second = put(t, s, key("a"), first, "two")
		case "a=two":
			put(t, s, key("b"), "", "three")
		case "b=three":
			if err := s.Remove(within(t), key("a"), second); err != nil {
				t.Fatal(err)
			}
		case "-a":
			cancel() // which ends the loop
		}
	}
	if want := strings.Fields("a=one ready a=two b=three -a"); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
}

// testWatchAll watches many documents while they are changed, and compares what was seen last.
func testWatchAll(t *testing.T, open Open, much extent) {
	const collection, last = "watch-all", "last"
	names := much.times(5, 20)
	rounds := much.times(10, 50)
	type seen struct {
		documents map[string]string
		err       error
	}
	var want atomic.Pointer[map[string]string] // once nobody changes documents any more
	watching := make(chan bool)
	results := make(chan seen)
	watch := func() {
		r := seen{documents: map[string]string{}}
		for c, err := range open(t).Watch(within(t), collection) {
			if r.err = err; err != nil {
				break
			}
			switch {
			case c.Ready:
				watching <- true
			case c.Version == "":
				delete(r.documents, c.Name)
			default:
				r.documents[c.Name] = string(c.Data)
			}
			// There is no order between documents, so others may come after the last one.
			if all := want.Load(); all != nil && maps.Equal(r.documents, *all) {
				break
			}
		}
		results <- r
	}
	go watch()
	<-watching
	race(t, names, func(ctx context.Context, i int) ([]Attempt, error) {
		s := open(t)
		key := store.Key{Collection: collection, Name: fmt.Sprint(i)}
		var r store.Version
		var err error
		for n := range rounds {
			if n%5 == 4 && r != "" {
				err = s.Remove(ctx, key, r)
				r = ""
			} else {
				r, err = s.Put(ctx, key, r, fmt.Append(nil, n))
			}
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	go watch()
	<-watching
	s := open(t)
	all := Documents(t, s, collection)
	all[last] = "x"
	want.Store(&all)
	put(t, s, store.Key{Collection: collection, Name: last}, "", "x")
	for range 2 {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		if !maps.Equal(r.documents, all) {
			t.Logf("seen %v, want %v", r.documents, all)
			t.Fatal("the watch has missed something")
		}
	}
}

// unheard is a Store whose next Put writes, and does not say so; after runs before it returns.
type unheard struct {
	store.Store
	after func()
}

func (u *unheard) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	version, err := u.Store.Put(ctx, key, old, data)
	if err == nil && u.after != nil {
		u.after()
		u.after = nil
		return "", store.ErrUnknown
	}
	return version, err
}

// testPutOwn checks what store.PutOwn finds out: that its own form is there, and never that it
// was not written when somebody may have replaced it.
func testPutOwn(t *testing.T, open Open) {
	s := open(t)
	for name, c := range map[string]struct {
		after func(key store.Key, mine []byte)
		want  error
	}{
		"there": {func(store.Key, []byte) {}, nil},
		"replaced": {func(key store.Key, mine []byte) {
			d, err := s.Get(within(t), key)
			if err == nil {
				_, err = s.Put(within(t), key, d.Version, []byte("another"))
			}
			if err != nil || !bytes.Equal(d.Data, mine) {
				t.Fatal(string(d.Data), err)
			}
		}, store.ErrUnknown},
		"removed": {func(key store.Key, _ []byte) {
			d, err := s.Get(within(t), key)
			if err == nil {
				err = s.Remove(within(t), key, d.Version)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, store.ErrUnknown},
	} {
		key := store.Key{Collection: "own", Name: name}
		old, err := s.Put(within(t), key, "", []byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		mine := []byte("mine " + store.NewID().String())
		u := &unheard{s, func() { c.after(key, mine) }}
		version, err := store.PutOwn(within(t), u, key, old, mine)
		if !errors.Is(err, c.want) || err == nil && version == "" {
			t.Errorf("%s: version %q, error %v", name, version, err)
		}
	}
}
