package durable

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// TestLate takes the store away for longer than a lease lasts while a run writes that it will make a
// call. The run waits until it has renewed its lease, and then may make the call: no other process could
// take it over.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := memorytest.New(t)
		runs := New(Options{
			Store: Shared(link.MustOpen(t)), Owner: func() (string, error) { return "one", nil }, Log: slog.New(slog.DiscardHandler),
		})
		defer runs.Close(context.Background())
		r := begun(t, runs)
		r.OnEnd(func(error) {}, nil, time.Hour)
		link.Cut(true)
		intended := make(chan error)
		go func() { intended <- r.Intend(t.Context(), r.ID(), 2, "s", "t", nil) }()
		time.Sleep(2 * DefaultTTL)
		select {
		case err := <-intended:
			t.Fatalf("intended without the store: %v", err)
		default:
		}
		link.Cut(false)
		if err := <-intended; err != nil {
			t.Error(err)
		}
		if err := r.Permitted(); err != nil {
			t.Error(err)
		}
	})
}
