package memorytest

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStore runs the tests of all stores, so that tests of others can rely on it as on NATS.
func TestStore(t *testing.T) {
	l := New(t)
	storetest.RunBrief(t, func(t *testing.T) store.Store { return l.MustOpen(t) })
}

// TestCut cuts one of two links.
func TestCut(t *testing.T) {
	whole := New(t)
	l := whole.Another(t)
	a, b := whole.MustOpen(t), l.MustOpen(t)
	key := store.Key{Collection: "docs", Name: "a"}
	changes := make(chan store.Change)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(changes)
		for c, err := range b.Watch(ctx, "docs") {
			if err != nil {
				t.Error(err)
			}
			changes <- c
		}
	}()
	if c := <-changes; !c.Ready {
		t.Fatalf("%+v", c)
	}
	l.Cut(true)
	if _, err := a.Put(t.Context(), key, "", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), key); !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
	for _, err := range b.Documents(t.Context(), "docs") {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := l.Open(ended); !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
	select {
	case c := <-changes:
		t.Errorf("seen through a link that is cut: %+v", c)
	default:
	}
	l.Cut(false)
	if c := <-changes; string(c.Data) != "1" {
		t.Errorf("%+v", c)
	}
	cancel()
	for range changes {
	}
}
