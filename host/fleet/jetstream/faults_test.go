package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// load is what runs while a test disturbs the servers: writers of one log that take it from
// each other, a follower, a counter in a document, and a watch of it.
type load struct {
	log      string
	counter  store.Key
	attempts []storetest.Attempt
	mu       sync.Mutex
	puts     int // increments that were confirmed
	unsure   int // increments of which nobody knows
	group    sync.WaitGroup
	stop     context.CancelFunc
	fence    atomic.Uint64
	events   atomic.Int64

	followed []store.Event
	watched  store.Version
}

// patience bounds every wait.
const patience = 2 * time.Minute

func startLoad(t *testing.T, writers int, open storetest.Open) *load {
	l := &load{log: store.NewID().String(), counter: store.Key{Collection: "load", Name: "counter"}}
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	follower, writer := open(t), make([]store.Store, writers)
	for i := range writers {
		writer[i] = open(t)
	}
	background, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	for i := range writers {
		l.group.Go(func() { l.write(ctx, t, writer[i], i) })
		l.group.Go(func() { l.count(ctx, t, writer[i], i) })
	}
	followed := make(chan bool)
	go func() {
		defer close(followed)
		for e, err := range follower.Follow(background, l.log, store.Position{}) {
			if err != nil {
				t.Errorf("follow: %v", err)
				return
			}
			l.mu.Lock()
			l.followed = append(l.followed, e)
			l.mu.Unlock()
		}
	}()
	watched := make(chan bool)
	go func() {
		defer close(watched)
		for c, err := range follower.Watch(background, l.counter.Collection) {
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			l.mu.Lock()
			if c.Name != "" {
				l.watched = c.Version
			}
			l.mu.Unlock()
		}
	}()
	t.Cleanup(func() { end(); <-followed; <-watched })
	return l
}

// write appends events, some of them as the only owner. Each call has little time, so that
// outcomes are unknown; half of these are settled by repeating, half by reading.
func (l *load) write(ctx context.Context, t *testing.T, s store.Store, i int) {
	var at store.Position
	for n := 0; ctx.Err() == nil; n++ {
		fence := l.fence.Load()
		short, cancel := context.WithTimeout(ctx, testenv.Quiet(time.Duration(50+rand.IntN(400))*time.Millisecond))
		if n%10 == 9 {
			fence = l.fence.Add(1)
			if _, err := s.Fence(short, l.log, fence); err != nil {
				cancel()
				continue
			}
		}
		attempts, err := storetest.Contend(short, s, l.log, &at, fence, 8, (i+n)%2 == 0)
		cancel()
		l.mu.Lock()
		l.attempts = append(l.attempts, attempts...)
		l.mu.Unlock()
		for _, a := range attempts {
			if a.Written {
				l.events.Add(1)
			}
		}
		var conflict *store.ConflictError
		var fenced *store.FencedError
		if err != nil && !errors.As(err, &conflict) && !errors.As(err, &fenced) && !errors.Is(err, store.ErrUnknown) &&
			!errors.Is(err, store.ErrUnavailable) && short.Err() == nil {
			t.Errorf("writer %d: %v", i, err)
			return
		}
		rest(ctx)
	}
}

// rest leaves the processor to the servers, which have to find each other again, for a moment
// that is shorter than any fault.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(testenv.Quiet(time.Duration(rand.IntN(20)) * time.Millisecond)):
	}
}

func (l *load) count(ctx context.Context, t *testing.T, s store.Store, i int) {
	for n := 0; ctx.Err() == nil; n++ {
		short, cancel := context.WithTimeout(ctx, testenv.Quiet(time.Duration(50+rand.IntN(400))*time.Millisecond))
		err := storetest.Increment(short, s, l.counter, fmt.Sprintf("%d.%d", i, n))
		cancel()
		l.mu.Lock()
		switch {
		case err == nil:
			l.puts++
		case errors.Is(err, store.ErrUnknown):
			l.unsure++
		case !errors.Is(err, store.ErrUnavailable) && short.Err() == nil:
			t.Errorf("counter %d: %v", i, err)
		}
		l.mu.Unlock()
		rest(ctx)
	}
}

// wait waits until more events were written.
func (l *load) wait(t *testing.T, events int) {
	t.Helper()
	goal := l.events.Load() + int64(events)
	for deadline := time.Now().Add(patience); l.events.Load() < goal; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is written any more")
		}
	}
}

// check ends the load, and compares what its writers know with what is there.
func (l *load) check(t *testing.T, s store.Store) {
	t.Helper()
	l.stop()
	l.group.Wait()
	// What is unknown is settled by whoever writes next: nothing can come after that.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.Fence(ctx, l.log, l.fence.Add(1)); err != nil {
		t.Fatal(err)
	}
	if err := storetest.Increment(ctx, s, l.counter, "last"); err != nil {
		t.Fatal(err)
	}
	l.puts++
	c := storetest.Check(t, s, l.log, l.attempts)
	d, err := s.Get(ctx, l.counter)
	if err != nil {
		t.Fatal(err)
	}
	counted := storetest.Count(t, s, l.counter)
	if counted < l.puts || counted > l.puts+l.unsure {
		t.Errorf("the document says %d: %d were confirmed, %d are unknown", counted, l.puts, l.unsure)
	}
	want := storetest.Events(t, s, l.log, store.Position{})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		followed, watched := len(l.followed), l.watched
		l.mu.Unlock()
		if followed >= len(want) && watched == d.Version {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("followed %d events of %d, watched %q of %q", followed, len(want), watched, d.Version)
		}
	}
	for i, e := range l.followed {
		if i >= len(want) || e.ID != want[i].ID || e.Position != want[i].Position {
			t.Fatalf("event %d was followed as %+v", i+1, e.Position)
		}
	}
	t.Logf("log: %v; document: %d counted, %d confirmed, %d unknown", c, counted, l.puts, l.unsure)
}

// TestCutConnection cuts connections in the middle of everything, keeps answers back, and is
// slow.
func TestCutConnection(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	t.Run("told", func(t *testing.T) { cutConnection(t, false) })
	// Whoever reads finds out alone that something is missing.
	t.Run("untold", func(t *testing.T) { cutConnection(t, true) })
}

func cutConnection(t *testing.T, ignore bool) {
	server := natstest.Start(t)
	proxy := natstest.StartProxy(t, server.Address())
	l := startLoad(t, 3, func(t *testing.T) store.Store {
		return open(t, Options{URLs: []string{proxy.URL()}, Attempt: 150 * time.Millisecond, Idle: 300 * time.Millisecond, ignoreReconnects: ignore})
	})
	l.wait(t, 10)
	for n := range storetest.Faults(12, 100) {
		switch n % 4 {
		case 0, 1:
			proxy.Cut()
		case 2: // answers are lost, and the connection is not
			proxy.Deafen(true)
			time.Sleep(testenv.Quiet(time.Duration(rand.IntN(200)) * time.Millisecond))
			proxy.Deafen(false)
			proxy.Cut()
		case 3:
			proxy.Delay(time.Duration(rand.IntN(60)) * time.Millisecond)
		}
		time.Sleep(testenv.Quiet(time.Duration(rand.IntN(30)) * time.Millisecond))
		if n%4 == 3 {
			proxy.Delay(0)
			l.wait(t, 5)
		}
	}
	l.check(t, open(t, Options{URLs: []string{server.URL()}}))
	t.Logf("%d connections were cut", proxy.Cuts.Load())
}

// TestRestart restarts the server, in good order and by killing it.
func TestRestart(t *testing.T) {
	onlyLong(t)
	server := natstest.Start(t)
	l := startLoad(t, 3, func(t *testing.T) store.Store {
		return open(t, Options{URLs: []string{server.URL()}, Attempt: 300 * time.Millisecond})
	})
	for n := range storetest.Faults(2, 10) {
		l.wait(t, 20)
		if n%2 == 0 {
			server.Kill()
		} else {
			server.Stop()
		}
		server.Start(t)
	}
	l.wait(t, 20)
	l.check(t, open(t, Options{URLs: []string{server.URL()}}))
}
