package journal

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// TestChain checks that the runs that continue a run are found, in another process too,
// and that a run without an end is told from one that is still running.
func TestChain(t *testing.T) {
	dir := t.TempDir()
	open := func() *Log {
		l := OpenLog(dir, LogOptions{Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	begin := func(l *Log, continues string) *Run {
		r, err := l.Open(Begin{Continues: continues, Limits: Limits{Timeout: time.Minute}})
		if err != nil || !r.OnDisk() {
			t.Fatal(err)
		}
		return r
	}
	asks := func(r *Run) string {
		r.Input(InputRecord{Call: 1, Name: "question1", Method: "roots/list"})
		r.Close(Outcome{Error: abi.ErrCancelled})
		return r.ID()
	}
	check := func(l *Log, id string, runs int, last string, abandoned bool) {
		t.Helper()
		c, err := l.Chain(id, nil)
		if err != nil || c.Runs != runs || c.Last.ID != last || c.Abandoned != abandoned || c.Start.IsZero() {
			t.Errorf("%d runs, the last is %s, abandoned %v, %v", c.Runs, c.Last.ID, c.Abandoned, err)
		}
	}
	one := open()
	first := asks(begin(one, ""))
	begin(one, asks(begin(one, ""))).Close(Outcome{}) // other runs
	check(one, first, 1, first, false)

	two := open()
	second := asks(begin(two, first))
	third := begin(two, second)
	check(one, first, 3, third.ID(), false)
	check(two, first, 3, third.ID(), true) // the caller knows its own runs
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	check(one, first, 3, third.ID(), true) // no process has the lock
	three := open()
	begin(three, "").Close(Outcome{}) // which takes the lock
	check(three, first, 3, third.ID(), true)
	check(one, first, 3, third.ID(), false) // it cannot know

	late, err := one.Open(Begin{Limits: Limits{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	late.Close(Outcome{Result: []byte("1")})
	check(one, late.ID(), 1, late.ID(), false)
	for _, id := range []string{late.ID()[:20], NewID(time.Now()), "x"} {
		if _, err := one.Chain(id, nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if Open(Begin{}).OnDisk() {
		t.Error("a run in memory is on disk")
	}
}

// TestAbandonedByTime checks that a run is over at the latest when its time is.
func TestAbandonedByTime(t *testing.T) {
	dir := t.TempDir()
	start := time.Now()
	open := func(now time.Time) *Log {
		l := OpenLog(dir, LogOptions{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	one, two := open(start), open(start.Add(2*time.Hour))
	for timeout, over := range map[time.Duration]bool{time.Minute: true, time.Hour: false} {
		r, err := one.Open(Begin{Limits: Limits{Timeout: timeout}})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := two.Chain(r.ID(), nil); err != nil || c.Abandoned != over {
			t.Errorf("%v: abandoned %v, %v", timeout, c.Abandoned, err)
		}
	}
}

// TestRounds checks that all runs of a dialogue are found from each of them.
func TestRounds(t *testing.T) {
	dir := t.TempDir()
	l := OpenLog(dir, LogOptions{Log: slog.New(slog.DiscardHandler)})
	var ids []string
	before := ""
	for round := range 3 {
		r, err := l.Open(Begin{Continues: before})
		if err != nil {
			t.Fatal(err)
		}
		r.Close(Outcome{Asks: round < 2})
		before = r.ID()
		ids = append(ids, before)
	}
	other, err := l.Open(Begin{})
	if err != nil {
		t.Fatal(err)
	}
	other.Close(Outcome{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][]string{ids[0]: ids, ids[1]: ids, ids[2]: ids, other.ID(): {other.ID()}} {
		rec, err := Find(t.Context(), dir, id)
		if err != nil {
			t.Fatal(err)
		}
		rounds, err := Rounds(t.Context(), dir, rec)
		var got []string
		for _, r := range rounds {
			got = append(got, r.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
}
