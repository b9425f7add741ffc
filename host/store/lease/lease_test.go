package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// memory has documents, and fails as a test wants.
type memory struct {
	store.Store
	mu   sync.Mutex
	docs map[store.Key]store.Document
	next int
	fail func() (before, after error) // of Put
}

func (m *memory) Get(_ context.Context, key store.Key) (store.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.docs[key]
	if !ok {
		return d, store.ErrNotFound
	}
	return d, nil
}

func (m *memory) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var before, after error
	if m.fail != nil {
		before, after = m.fail()
	}
	if before != nil {
		return "", before
	}
	if m.docs[key].Version != old {
		return "", &store.ConflictError{What: key.String()}
	}
	m.next++
	r := store.Version(rune('a' + m.next))
	m.docs[key] = store.Document{Key: key, Version: r, Data: data}
	return r, after
}

// TestHold renews a lease in virtual time, through failures of the store that are shorter than
// the lease, and notices when they are longer.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{docs: map[store.Key]store.Document{}}
		leases, others := New(m, Options{Owner: "a", TTL: time.Minute}), New(m, Options{Owner: "b", TTL: time.Minute})
		l, err := leases.Take(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		held, stop := l.Hold(t.Context())
		defer stop()
		n := 0
		m.mu.Lock()
		m.fail = func() (error, error) { // two of three fail, one of them after it was written
			n++
			switch n % 3 {
			case 0:
				return store.ErrUnavailable, nil
			case 1:
				return nil, store.ErrUnknown
			}
			return nil, nil
		}
		m.mu.Unlock()
		for range 100 {
			time.Sleep(10 * time.Second)
			if _, err := others.Take(t.Context(), "x"); held.Err() != nil || !errors.As(err, new(*HeldError)) {
				t.Fatal(err, context.Cause(held))
			}
		}
		m.mu.Lock()
		m.fail = func() (error, error) { return store.ErrUnavailable, nil }
		m.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if !errors.Is(context.Cause(held), ErrLost) {
			t.Fatal(context.Cause(held))
		}
	})
}

// TestLost checks that the holder of a lease learns that somebody else has it.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{docs: map[store.Key]store.Document{}}
		a, b := New(m, Options{Owner: "a", TTL: time.Minute}), New(m, Options{Owner: "b", TTL: time.Minute})
		l, err := a.Take(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Take(t.Context(), "x"); err == nil {
			t.Fatal("taken")
		}
		time.Sleep(time.Minute)
		next, err := b.Take(t.Context(), "x")
		if err != nil || next.Fence() != l.Fence()+1 {
			t.Fatal(next, err)
		}
		held, stop := l.Hold(t.Context())
		defer stop()
		<-held.Done()
		if !errors.Is(context.Cause(held), ErrLost) || !l.Until().IsZero() && l.Until().After(time.Now()) {
			t.Fatal(context.Cause(held))
		}
	})
}
