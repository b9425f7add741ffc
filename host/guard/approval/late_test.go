package approval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
)

// latePlace is a Place whose View may change between a look at it and Fresh.
type latePlace struct {
	documents.Place
	hidden atomic.Bool            // the next look finds nothing
	before atomic.Pointer[func()] // is called once, by Fresh
}

func (p *latePlace) View(ctx context.Context, f func(documents.Documents) error) error {
	if p.hidden.CompareAndSwap(true, false) {
		return f(noDocuments{})
	}
	return p.Place.View(ctx, f)
}

func (p *latePlace) Fresh(ctx context.Context, name documents.Name) error {
	if before := p.before.Swap(nil); before != nil {
		(*before)()
	}
	return p.Place.Fresh(ctx, name)
}

type noDocuments struct{ documents.Documents }

func (noDocuments) IDs(string) ([]string, error) { return nil, nil }

func (noDocuments) Read(n documents.Name, _ any) error {
	return fmt.Errorf("%v: %w", n, fs.ErrNotExist)
}

// TestLateEntry checks that an entry is not taken for gone if it comes into view between the look at
// it and the question whether the view is fresh.
func TestLateEntry(t *testing.T) {
	t.Parallel()
	place := &latePlace{Place: documents.InFolder(t.TempDir())}
	d := newDeskOf(t, NewQueue(place, slog.New(slog.DiscardHandler)))
	d.settings.By = ByQueue
	e, done := d.held(t.Context(), asking(nil, `{}`))
	place.hidden.Store(true)
	if found, err := d.queue.Find(t.Context(), e.ID); err != nil || found.ID != e.ID {
		t.Errorf("found %+v, %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	place.hidden.Store(true)
	waited := make(chan error, 1)
	go func() {
		_, err := d.queue.await(ctx, e.ID)
		waited <- err
	}()
	for place.hidden.Load() {
		runtime.Gosched()
	}
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("waited: %v", err)
	}
	d.decide(e.ID, Verdict{Allow: true})
	if err := d.ends(done); err != nil {
		t.Error(err)
	}
}

// TestForgottenInBetween checks that a remembered approval does not count if it goes out of view
// between the look at it and the question whether the view is fresh.
func TestForgottenInBetween(t *testing.T) {
	t.Parallel()
	place := &latePlace{Place: documents.InFolder(t.TempDir())}
	d := newDeskOf(t, NewQueue(place, slog.New(slog.DiscardHandler)))
	d.settings.By = ByQueue
	e, done := d.held(t.Context(), asking(nil, `{}`))
	if _, err := d.queue.Decide(t.Context(), e.ID, Verdict{Allow: true, Remember: ForValue, By: "x"}, HowQueue, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := d.ends(done); err != nil {
		t.Fatal(err)
	}
	if made, err := d.approve(asking(nil, `{}`)); err != nil || !made.Remembered {
		t.Fatalf("%+v, %v", made, err)
	}
	list, err := d.queue.Remembered(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	forget := func() {
		if _, err := d.queue.Forget(t.Context(), list[0].ID); err != nil {
			t.Error(err)
		}
	}
	place.before.Store(&forget)
	d.settings.Timeout = 10 * time.Millisecond
	if made, err := d.approve(asking(nil, `{}`)); err == nil {
		t.Errorf("allowed: %+v", made)
	}
}

// TestDecidedWhileClockJumps checks that a decision stays until the call that waits for it has taken
// it, whatever the clocks of others say.
func TestDecidedWhileClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{-10 * time.Hour, 10 * time.Hour} {
		d := newDesk(t, t.TempDir())
		now := time.Now()
		e, _, err := d.queue.enter(t.Context(), Entry{Created: now, Expires: now.Add(time.Minute)}, testSettings())
		if err != nil {
			t.Fatal(err)
		}
		d.queue.now = func() time.Time { return now.Add(jump) }
		d.decide(e.ID, Verdict{Allow: true})
		d.queue.now = func() time.Time { return now.Add(-jump) }
		if err := d.queue.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := d.queue.take(t.Context(), e.ID); err != nil || got.State != Allowed {
			t.Errorf("jumps of %v and back: %+v, %v", jump, got, err)
		}
	}
}
