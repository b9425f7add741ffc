package storetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

func testAppend(t *testing.T, open Open) {
	s, other := open(t), open(t)
	log := newLog()
	first := Write(t, s, log, store.Position{}, 0, "a")
	second := Write(t, other, log, first, 0, "b")
	for _, after := range []store.Position{{}, first} {
		_, err := s.Append(within(t), log, store.Entry{After: after, ID: store.NewID(), Data: []byte("x")})
		wantConflict(t, err)
	}
	data := []byte("c")
	third, err := s.Append(within(t), log, store.Entry{After: second, ID: store.NewID(), Data: data})
	if err != nil {
		t.Fatal(err)
	}
	data[0] = 'x' // the Store must not have kept it
	for _, from := range []store.Store{s, other, open(t)} {
		events := Events(t, from, log, store.Position{})
		if texts(events) != "a b c " || events[1].Position != second || events[2].Position != third {
			t.Fatalf("events %q, positions %+v", texts(events), events)
		}
	}
}

// testAppendAgain repeats calls of which nobody knows whether they have done something.
func testAppendAgain(t *testing.T, open Open) {
	s := open(t)
	log := newLog()
	e := store.Entry{ID: store.NewID(), Data: []byte("a")}
	first, err := s.Append(within(t), log, e)
	if err != nil {
		t.Fatal(err)
	}
	second := Write(t, s, log, first, 0, "b")
	for _, from := range []store.Store{s, open(t)} {
		if at, err := from.Append(within(t), log, e); err != nil || at != first {
			t.Fatalf("again: %+v %v, want %+v", at, err, first)
		}
	}
	other := e
	other.ID = store.NewID() // somebody else, with the same bytes
	_, err = s.Append(within(t), log, other)
	wantConflict(t, err)
	if events := Events(t, s, log, store.Position{}); texts(events) != "a b " || events[1].Position != second {
		t.Fatalf("events %q", texts(events))
	}
}

func testFence(t *testing.T, open Open) {
	old, next := open(t), open(t)
	log := newLog()
	if at, err := old.Fence(within(t), log, 1); err != nil || at.Number != 0 || at.Fence != 1 {
		t.Fatalf("%+v %v", at, err)
	}
	first := Write(t, old, log, store.Position{}, 1, "a")
	at, err := next.Fence(within(t), log, 7)
	if err != nil || at.Number != 1 || at.Fence != 7 {
		t.Fatalf("%+v %v", at, err)
	}
	stale := store.Entry{After: first, Fence: 1, ID: store.NewID(), Data: []byte("x")}
	_, err = old.Append(within(t), log, stale)
	wantFenced(t, err, 7)
	for _, after := range []store.Position{first, at} { // a writer need not know that it is fenced for it
		_, err = old.Append(within(t), log, store.Entry{After: after, Fence: 6, ID: store.NewID(), Data: []byte("x")})
		wantFenced(t, err, 7)
	}
	_, err = old.Fence(within(t), log, 6)
	wantFenced(t, err, 7)
	if again, err := next.Fence(within(t), log, 7); err != nil || again != at {
		t.Fatalf("again: %+v %v, want %+v", again, err, at)
	}
	second := Write(t, next, log, first, 7, "b")
	// The old owner reads the log, and still cannot write.
	events := Events(t, old, log, store.Position{})
	if texts(events) != "a b " || events[0].Position.Fence != 1 || events[1].Position != second {
		t.Fatalf("events %+v", events)
	}
	_, err = old.Append(within(t), log, store.Entry{After: events[1].Position, Fence: 1, ID: store.NewID(), Data: []byte("x")})
	wantFenced(t, err, 7)
	third := Write(t, next, log, second, 9, "c") // appending fences, too
	_, err = next.Append(within(t), log, store.Entry{After: third, Fence: 7, ID: store.NewID(), Data: []byte("x")})
	wantFenced(t, err, 9)
	if at, err := next.Fence(within(t), log, 9); err != nil || at != third {
		t.Fatalf("%+v %v, want %+v", at, err, third)
	}
	if events := Events(t, next, log, first); texts(events) != "b c " {
		t.Fatalf("events %q", texts(events))
	}
}

func testRead(t *testing.T, open Open) {
	s := open(t)
	log := newLog()
	if events := Events(t, s, log, store.Position{}); len(events) > 0 {
		t.Fatalf("events %v", events)
	}
	var at store.Position
	for _, text := range strings.Fields("a b c d e f") {
		at = Write(t, s, log, at, 0, text)
	}
	events := Events(t, s, log, store.Position{})
	for i, e := range events {
		rest := Events(t, s, log, e.Position)
		if want := texts(events[i+1:]); texts(rest) != want {
			t.Fatalf("behind %d: %q, want %q", i+1, texts(rest), want)
		}
	}
	for range s.Read(within(t), log, store.Position{}) {
		break // a reader can stop
	}
}

func testFollow(t *testing.T, open Open, much extent) {
	s := open(t)
	log := newLog()
	n := much.times(40, 1000)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	type seen struct {
		from int
		err  error
		got  []store.Event
	}
	results := make(chan seen)
	follow := func(from int, after store.Position) {
		r := seen{from: from}
		for e, err := range open(t).Follow(ctx, log, after) {
			if err != nil {
				r.err = err
				break
			}
			if r.got = append(r.got, e); int(e.Position.Number) == n {
				break
			}
		}
		results <- r
	}
	go follow(0, store.Position{}) // there is no such log yet
	var at store.Position
	for i := range n {
		if i == n/2 {
			go follow(i, at)
		}
		at = Write(t, s, log, at, 0, "e")
	}
	for range 2 {
		r := <-results
		if r.err != nil || len(r.got) != n-r.from {
			t.Fatalf("from %d: %d events, error %v", r.from, len(r.got), r.err)
		}
		for i, e := range r.got {
			if e.Position.Number != uint64(r.from+i+1) {
				t.Fatalf("from %d: event %d at %d", r.from, e.Position.Number, i)
			}
		}
	}
	ended := make(chan error)
	go func() {
		var failed error
		for e, err := range s.Follow(ctx, log, at) {
			failed = errors.Join(failed, err, errors.New(string(e.Data)))
		}
		ended <- failed
	}()
	cancel()
	if err := <-ended; err != nil {
		t.Fatalf("the end of Follow: %v", err)
	}
}

func testLogs(t *testing.T, open Open) {
	s := open(t)
	one, two, marked, empty := newLog(), newLog(), newLog(), newLog()
	Write(t, s, one, Write(t, s, one, store.Position{}, 0, "a"), 0, "b")
	Write(t, s, two, store.Position{}, 3, "c")
	Write(t, s, marked, store.Position{}, 3, "d")
	for _, log := range []string{marked, empty} {
		if _, err := s.Fence(within(t), log, 4); err != nil {
			t.Fatal(err)
		}
	}
	list := func() map[string]string {
		found := map[string]string{}
		for e, err := range open(t).Logs(within(t)) {
			if err != nil {
				t.Fatal(err)
			}
			found[e.Log] = string(e.Data)
		}
		return found
	}
	found := list()
	if found[one] != "b" || found[two] != "c" || found[marked] != "d" || found[empty] != "" {
		t.Fatalf("logs %v", found)
	}
	for log, want := range map[string]string{one: "b", two: "c", marked: "d"} {
		if e, err := s.Last(within(t), log); err != nil || string(e.Data) != want || e.Position.Number == 0 {
			t.Errorf("the last event: %+v %v, want %q", e, err, want)
		}
	}
	for _, log := range []string{empty, newLog()} {
		_, err := s.Last(within(t), log)
		wantError(t, err, store.ErrNotFound)
	}
	for range 2 {
		if err := s.Drop(within(t), one); err != nil {
			t.Fatal(err)
		}
	}
	if found = list(); found[one] != "" || found[two] != "c" {
		t.Fatalf("logs %v", found)
	}
	if events := Events(t, s, one, store.Position{}); len(events) > 0 {
		t.Fatalf("events %v", events)
	}
}

func testLogNames(t *testing.T, open Open) {
	s := open(t)
	for _, name := range []string{"", ".", "..", "a/b", "a.b", "*", ">", "a b", "A", "ä", "a\x00", "a\n", strings.Repeat("a", store.MaxLogName+1)} {
		_, err := s.Append(within(t), name, store.Entry{ID: store.NewID(), Data: []byte("x")})
		_, fence := s.Fence(within(t), name, 1)
		var read error
		for _, err := range s.Read(within(t), name, store.Position{}) {
			read = err
		}
		var follow error
		for _, err := range s.Follow(within(t), name, store.Position{}) {
			follow = err
		}
		for _, err := range []error{err, fence, read, follow, s.Drop(within(t), name)} {
			if bad := (*store.NameError)(nil); !errors.As(err, &bad) {
				t.Errorf("name %q: %v", name, err)
			}
		}
	}
	for _, name := range []string{"-", "0", "con", strings.Repeat("z", store.MaxLogName)} {
		Write(t, s, name, store.Position{}, 0, "x")
	}
}

func testEventSizes(t *testing.T, open Open, much extent) {
	s := open(t)
	log := newLog()
	for _, size := range []int{0, store.MaxEvent + store.Slack + 1} {
		_, err := s.Append(within(t), log, store.Entry{ID: store.NewID(), Data: make([]byte, size)})
		if bad := (*store.SizeError)(nil); !errors.As(err, &bad) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	sizes := []int{1, 64 << 10, 1<<20 - 4096, 1<<20 - 4095, 1 << 20, 1<<20 + 1, 5 << 20}
	if much == largest {
		sizes = append(sizes, store.MaxEvent)
	}
	var at store.Position
	var err error
	for _, size := range sizes {
		at, err = s.Append(within(t), log, store.Entry{After: at, ID: store.NewID(), Data: content(size)})
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	for i, e := range Events(t, open(t), log, store.Position{}) {
		if !bytes.Equal(e.Data, content(sizes[i])) {
			t.Errorf("%d bytes: read %d", sizes[i], len(e.Data))
		}
	}
	// All bytes, and what a format of lines could stumble on.
	other := newLog()
	at = store.Position{}
	texts := []string{"\n", "{}\n{}", "\x00\xff\xfe", "", `{"t":"begin","run":"` + other + `"}`}
	for _, text := range texts {
		if text != "" {
			at = Write(t, s, other, at, 0, text)
		}
	}
	for i, e := range Events(t, s, other, store.Position{}) {
		if want := append(texts[:3:3], texts[4])[i]; string(e.Data) != want {
			t.Errorf("%q, want %q", e.Data, want)
		}
	}
}

// testLasting uses logs that are never removed to make room for others, and others, in the same way:
// where they are makes no difference to who uses them.
func testLasting(t *testing.T, open Open) {
	s, other := open(t), open(t)
	for _, log := range []string{newLog(), store.LastingPrefix + newLog()} {
		if err := s.Whole(within(t), log); !errors.Is(err, store.ErrGone) {
			t.Errorf("%s: a log that is not there: %v", log, err)
		}
		at, err := s.Fence(within(t), log, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Whole(within(t), log); err != nil {
			t.Errorf("%s: a log with a fence only: %v", log, err)
		}
		first := Write(t, s, log, at, 1, "a")
		fenced, err := other.Fence(within(t), log, 2)
		if err != nil || fenced.Number != 1 {
			t.Fatal(fenced, err)
		}
		if _, err := s.Append(within(t), log, store.Entry{After: first, Fence: 1, ID: store.NewID(), Data: []byte("x")}); !errors.As(err, new(*store.FencedError)) {
			t.Errorf("%s: a former owner: %v", log, err)
		}
		second := Write(t, other, log, fenced, 2, "b")
		if got := texts(Events(t, s, log, store.Position{})); got != "a b " {
			t.Errorf("%s: %q", log, got)
		}
		if got := texts(Events(t, s, log, first)); got != "b " {
			t.Errorf("%s: %q", log, got)
		}
		if last, err := s.Last(within(t), log); err != nil || string(last.Data) != "b" || last.Position != second {
			t.Errorf("%s: %+v %v", log, last, err)
		}
		if err := s.Whole(within(t), log); err != nil {
			t.Errorf("%s: %v", log, err)
		}
		listed := 0
		for l, err := range s.Logs(within(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if l.Log == log {
				listed++
			}
		}
		if listed != 1 {
			t.Errorf("%s: listed %d times", log, listed)
		}
		if err := s.Drop(within(t), log); err != nil {
			t.Fatal(err)
		}
		if err := other.Whole(within(t), log); !errors.Is(err, store.ErrGone) {
			t.Errorf("%s: it was removed: %v", log, err)
		}
		if _, err := other.Append(within(t), log, store.Entry{After: second, Fence: 2, ID: store.NewID(), Data: []byte("c")}); !errors.Is(err, store.ErrGone) {
			t.Errorf("%s: what it was to be behind was removed: %v", log, err)
		}
	}
}
