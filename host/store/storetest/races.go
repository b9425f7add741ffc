package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Attempt is what a writer knows of an event that it tried to append.
type Attempt struct {
	ID      store.ID
	Number  uint64 // where it was to be
	Fence   uint64
	Written bool  // Append has succeeded
	Unknown bool  // nobody knows
	Err     error // what Append said last
}

// Counts are what Check has counted.
type Counts struct {
	Written, Unknown, Refused int // attempts
	Events                    int // in the log
	Resolved                  int // events of attempts whose outcome was unknown
}

func (c Counts) String() string {
	return fmt.Sprintf("%d written, %d unknown (%d of them are there), %d refused, %d events", c.Written, c.Unknown, c.Resolved, c.Refused, c.Events)
}

// Check compares a log with what its writers know: what was written is there, once and at its
// place, what was refused is not, and fencing numbers never get smaller.
func Check(t *testing.T, s store.Store, log string, attempts []Attempt) Counts {
	t.Helper()
	known := map[store.ID]Attempt{}
	var c Counts
	for _, a := range attempts {
		known[a.ID] = a
		switch {
		case a.Written:
			c.Written++
		case a.Unknown:
			c.Unknown++
		default:
			c.Refused++
		}
	}
	fence := uint64(0)
	seen := map[store.ID]bool{}
	for _, e := range Events(t, s, log, store.Position{}) {
		c.Events++
		a, ok := known[e.ID]
		switch {
		case !ok:
			t.Errorf("event %d: nobody has written it", e.Position.Number)
		case seen[e.ID]:
			t.Errorf("event %d: is there twice", e.Position.Number)
		case !a.Written && !a.Unknown:
			t.Errorf("event %d: is there, but its writer was told that it is not (%s): %v", e.Position.Number, e.ID, a.Err)
		case a.Number != e.Position.Number || a.Fence != e.Position.Fence:
			t.Errorf("event %d with fence %d: was written as %d with %d", e.Position.Number, e.Position.Fence, a.Number, a.Fence)
		}
		if !a.Written && a.Unknown {
			c.Resolved++
		}
		if e.Position.Fence < fence {
			t.Errorf("event %d: fencing number %d after %d", e.Position.Number, e.Position.Fence, fence)
		}
		fence = e.Position.Fence
		seen[e.ID] = true
	}
	for _, a := range attempts {
		if a.Written && !seen[a.ID] {
			t.Errorf("event %d: was written, and is lost", a.Number)
		}
	}
	return c
}

// Contend appends events to a log, against whoever else does, until it has appended some, or
// the log belongs to a later owner, or ctx ends. What is unknown after an attempt is settled by
// repeating it, unless giveUp is set, when the writer goes on from what it reads. at is up to
// where the writer has read the log.
func Contend(ctx context.Context, s store.Store, log string, at *store.Position, fence uint64, events int, giveUp bool) (attempts []Attempt, err error) {
	if err := catchUp(ctx, s, log, at); err != nil {
		return nil, err
	}
	for done := 0; done < events; {
		e := store.Entry{After: *at, Fence: fence, ID: store.NewID(), Data: []byte(strconv.Itoa(done))}
		a := Attempt{ID: e.ID, Number: at.Number + 1, Fence: fence}
		next, err := s.Append(ctx, log, e)
		doubt := errors.Is(err, store.ErrUnknown)
		for errors.Is(err, store.ErrUnknown) && !giveUp && ctx.Err() == nil {
			next, err = s.Append(ctx, log, e)
		}
		var conflict *store.ConflictError
		var fenced *store.FencedError
		// Only these settle what an earlier call was not told.
		settled := err == nil || errors.As(err, &conflict) || errors.As(err, &fenced)
		a.Written, a.Unknown, a.Err = err == nil, errors.Is(err, store.ErrUnknown) || doubt && !settled, err
		attempts = append(attempts, a)
		switch {
		case err == nil:
			*at = next
			done++
			continue
		case errors.As(err, &fenced):
			return attempts, err
		case errors.As(err, &conflict), a.Unknown, errors.Is(err, store.ErrUnavailable):
			err = catchUp(ctx, s, log, at)
		}
		if err != nil {
			return attempts, err
		}
	}
	return attempts, nil
}

// End returns the position of the last event of a log behind another position.
func End(ctx context.Context, s store.Store, log string, at store.Position) (store.Position, error) {
	err := catchUp(ctx, s, log, &at)
	return at, err
}

// catchUp moves a position to the end of the log, or as far as it can.
func catchUp(ctx context.Context, s store.Store, log string, at *store.Position) error {
	for e, err := range s.Read(ctx, log, *at) {
		if err != nil {
			return err
		}
		*at = e.Position
	}
	return nil
}

// testRacingWriters lets writers append to one log at the same time.
func testRacingWriters(t *testing.T, open Open, much extent) {
	log := newLog()
	writers, events := much.times(4, 8), much.times(12, 100)
	all := race(t, writers, func(ctx context.Context, i int) ([]Attempt, error) {
		return Contend(ctx, open(t), log, new(store.Position), 0, events, false)
	})
	c := Check(t, open(t), log, all)
	if c.Written != writers*events || c.Events != c.Written || c.Unknown > 0 {
		t.Fatal(c)
	}
	t.Log(c)
}

// testRacingOwners lets owners take a log from each other while they write.
func testRacingOwners(t *testing.T, open Open, much extent) {
	log := newLog()
	var fence atomic.Uint64
	var lost atomic.Int64
	all := race(t, much.times(4, 8), func(ctx context.Context, i int) (all []Attempt, err error) {
		s, at := open(t), store.Position{}
		for range much.times(6, 25) {
			own := fence.Add(1)
			if _, err := s.Fence(ctx, log, own); err != nil {
				if unlessFenced(err) != nil {
					return all, err
				}
				continue
			}
			attempts, err := Contend(ctx, s, log, &at, own, 5, false)
			all = append(all, attempts...)
			if unlessFenced(err) != nil {
				return all, err
			}
			if err != nil {
				lost.Add(1)
			}
		}
		return all, nil
	})
	c := Check(t, open(t), log, all)
	if c.Events != c.Written || c.Unknown > 0 {
		t.Fatal(c)
	}
	t.Logf("%d owners lost the log; %v", lost.Load(), c)
}

func unlessFenced(err error) error {
	if fenced := (*store.FencedError)(nil); errors.As(err, &fenced) {
		return nil
	}
	return err
}

// race calls f for each of n writers at the same time.
func race(t *testing.T, n int, f func(ctx context.Context, i int) ([]Attempt, error)) (all []Attempt) {
	t.Helper()
	ctx := within(t)
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			attempts, err := f(ctx, i)
			if err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, attempts...)
		})
	}
	group.Wait()
	return all
}

// testRacingPuts lets writers count in one document at the same time, each for itself. Only in
// a cluster may it be unknown whether one has.
func testRacingPuts(t *testing.T, open Open, much extent, cluster bool) {
	key := store.Key{Collection: "racing", Name: "counter"}
	writers, each := much.times(4, 8), much.times(8, 100)
	race(t, writers, func(ctx context.Context, i int) ([]Attempt, error) {
		s := open(t)
		for n := range each {
			if err := countTo(ctx, s, key, fmt.Sprint(i), n+1, cluster); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	_, counts, err := countsIn(within(t), open(t), key)
	if err != nil || len(counts) != writers {
		t.Fatal(counts, err)
	}
	for writer, n := range counts {
		if n != each {
			t.Errorf("writer %s: %d, want %d", writer, n, each)
		}
	}
}

// countsIn returns a document in which writers count, and their counts.
func countsIn(ctx context.Context, s store.Store, key store.Key) (store.Document, map[string]int, error) {
	counts := map[string]int{}
	d, err := s.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return d, counts, nil
	case err != nil:
		return d, nil, err
	}
	return d, counts, json.Unmarshal(d.Data, &counts)
}

// countTo makes the count of one writer n in a document. It was n-1. If it may be unknown whether
// that was written before somebody else has replaced it, the writer looks, since nobody else
// changes its count.
func countTo(ctx context.Context, s store.Store, key store.Key, writer string, n int, unknown bool) error {
	for {
		d, counts, err := countsIn(ctx, s, key)
		switch {
		case err != nil:
			return err
		case counts[writer] == n:
			return nil
		case counts[writer] != n-1:
			return fmt.Errorf("the count of %s is %d, not %d", writer, counts[writer], n-1)
		}
		counts[writer] = n
		data, _ := json.Marshal(counts)
		_, err = s.Put(ctx, key, d.Version, data)
		if conflict := (*store.ConflictError)(nil); err != nil && (!errors.As(err, &conflict) || errors.Is(err, store.ErrUnknown) && !unknown) {
			return err
		}
	}
}

// counter is a document that writers count in.
type counter struct {
	Count int
	By    string // tells the forms apart
}

// Increment adds one to a document, against whoever else does. by is the name of the writer.
func Increment(ctx context.Context, s store.Store, key store.Key, by string) error {
	for n := 0; ; n++ {
		d, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		var c counter
		if err == nil {
			if err := json.Unmarshal(d.Data, &c); err != nil {
				return err
			}
		}
		c = counter{c.Count + 1, fmt.Sprintf("%s %d", by, n)}
		data, _ := json.Marshal(c)
		_, err = s.Put(ctx, key, d.Version, data)
		if conflict := (*store.ConflictError)(nil); err == nil || !errors.As(err, &conflict) || errors.Is(err, store.ErrUnknown) {
			return err
		}
	}
}

// Count returns what a document has counted.
func Count(t *testing.T, s store.Store, key store.Key) int {
	t.Helper()
	d, err := s.Get(within(t), key)
	var c counter
	if err == nil {
		err = json.Unmarshal(d.Data, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.Count
}
