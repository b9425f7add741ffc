package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
)

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// testLeases lets leases expire. Each process has another idea of the time.
func testLeases(t *testing.T, open Open) {
	const ttl = 10 * time.Second
	name := newLog()
	one, two := &clock{at: time.Unix(1_000_000, 0)}, &clock{at: time.Unix(-5, 0)}
	first := lease.New(open(t), lease.Options{Owner: "one", TTL: ttl, Now: one.now})
	second := lease.New(open(t), lease.Options{Owner: "two", TTL: ttl, Now: two.now})
	held := func(s *lease.Leases, owner string, left time.Duration) {
		t.Helper()
		_, err := s.Take(within(t), name)
		var held *lease.HeldError
		if !errors.As(err, &held) || held.Owner != owner || held.For != left {
			t.Fatalf("taken: %v, want that %s has it for %v", err, owner, left)
		}
	}
	a, err := first.Take(within(t), name)
	if err != nil || a.Until() != one.now().Add(ttl) {
		t.Fatal(a, err)
	}
	held(first, "one", ttl)
	two.move(time.Hour) // it has not looked yet, so it knows nothing
	held(second, "one", ttl)
	two.move(ttl - 1)
	held(second, "one", 1)
	if err := a.Renew(within(t)); err != nil {
		t.Fatal(err)
	}
	two.move(1)
	held(second, "one", ttl)
	one.move(-time.Hour) // which is nobody's business
	two.move(ttl)
	b, err := second.Take(within(t), name)
	if err != nil || b.Fence() <= a.Fence() {
		t.Fatal(b, err)
	}
	wantError(t, a.Renew(within(t)), lease.ErrLost)
	wantError(t, a.Release(within(t)), lease.ErrLost)
	held(first, "two", ttl)
	if err := second.Forget(within(t), name); err == nil {
		t.Fatal("a lease that somebody has is forgotten")
	}
	if err := b.Release(within(t)); err != nil {
		t.Fatal(err)
	}
	wantError(t, b.Renew(within(t)), lease.ErrLost)
	if err := second.Forget(within(t), name); err != nil {
		t.Fatal(err)
	}
	c, err := first.Take(within(t), name)
	if err != nil || c.Fence() <= b.Fence() {
		t.Fatalf("fence %d after %d, %v", c.Fence(), b.Fence(), err)
	}
}

// testRacingLeases lets processes take a lease, write what only the owner may write, and lose
// the lease at any time.
func testRacingLeases(t *testing.T, open Open, much extent) {
	name, log := newLog(), newLog()
	processes, each := much.times(4, 8), much.times(5, 20)
	var mu sync.Mutex
	fences := map[uint64]string{}
	var all []Attempt
	var group sync.WaitGroup
	for i := range processes {
		group.Go(func() {
			ctx, s, clock, at := within(t), open(t), &clock{at: time.Now()}, store.Position{}
			leases := lease.New(s, lease.Options{Owner: fmt.Sprint(i), TTL: time.Second, Now: clock.now})
			for n := 0; n < each; {
				l, err := leases.Take(ctx, name)
				if held := (*lease.HeldError)(nil); errors.As(err, &held) {
					clock.move(300 * time.Millisecond) // as if it had waited
					continue
				}
				if err != nil {
					t.Errorf("process %d: %v", i, err)
					return
				}
				n++
				mu.Lock()
				if other, again := fences[l.Fence()]; again {
					t.Errorf("processes %s and %d have fencing number %d", other, i, l.Fence())
				}
				fences[l.Fence()] = fmt.Sprint(i)
				mu.Unlock()
				if _, err := s.Fence(ctx, log, l.Fence()); err != nil {
					if unlessFenced(err) != nil {
						t.Error(err)
					}
					continue
				}
				attempts, err := Contend(ctx, s, log, &at, l.Fence(), 3, false)
				if unlessFenced(err) != nil {
					t.Errorf("process %d: %v", i, err)
				}
				mu.Lock()
				all = append(all, attempts...)
				mu.Unlock()
				switch n % 3 {
				case 0: // it dies
				case 1:
					err = l.Release(ctx)
				case 2:
					if err = l.Release(ctx); err == nil {
						err = leases.Forget(ctx, name)
					}
				}
				conflict, held := (*store.ConflictError)(nil), (*lease.HeldError)(nil)
				if err != nil && unlessFenced(err) != nil && !errors.Is(err, lease.ErrLost) && !errors.As(err, &conflict) && !errors.As(err, &held) {
					t.Errorf("process %d: %v", i, err)
				}
			}
		})
	}
	group.Wait()
	c := Check(t, open(t), log, all)
	t.Logf("%d owners; %v", len(fences), c)
}
