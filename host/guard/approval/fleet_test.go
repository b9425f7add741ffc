package approval

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// replicaDesk returns a desk of a replica of the fleet at the end of a link, which only asks the queue.
func replicaDesk(t *testing.T, link *memorytest.Link, change func(*documents.Options)) *desk {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	opts := documents.Options{Store: link.MustOpen(t), ID: store.NewID().String(), Log: quiet}
	if change != nil {
		change(&opts)
	}
	d := newDeskOf(t, NewQueue(documents.InFleet(opts), quiet))
	d.settings.By = ByQueue
	return d
}

// TestFleet shares a queue between replicas: one decision, used once; replicas that are gone;
// what is remembered.
func TestFleet(t *testing.T) {
	t.Parallel()
	link := memorytest.New(t)
	t.Run("race", func(t *testing.T) {
		for range 3 { // who wins is up to chance
			race(t, []*desk{replicaDesk(t, link, nil), replicaDesk(t, link, nil)})
			clearQueue(t, link)
		}
	})
	t.Run("held", func(t *testing.T) {
		a, b := replicaDesk(t, link, nil), replicaDesk(t, link, nil)
		for _, allow := range []bool{true, false} {
			e, done := a.held(t.Context(), asking(nil, `{"n":1}`))
			if l := b.listed(1); !l[0].Waits {
				t.Errorf("listed elsewhere: %+v", l)
			}
			b.decide(e.ID, Verdict{Allow: allow})
			if err := a.ends(done); (err == nil) != allow {
				t.Errorf("allowed: %v; %v", allow, err)
			}
			b.listed(0)
		}
	})
	t.Run("remembered", func(t *testing.T) {
		a, b := replicaDesk(t, link, nil), replicaDesk(t, link, nil)
		e, done := a.held(t.Context(), asking(nil, `{"n":2}`))
		b.decide(e.ID, Verdict{Allow: true, Remember: ForValue})
		if err := a.ends(done); err != nil {
			t.Error(err)
		}
		for _, d := range []*desk{a, b} {
			if made, err := d.approve(asking(nil, `{"n":2}`)); err != nil || !made.Remembered {
				t.Errorf("%+v, %v", made, err)
			}
		}
		if _, err := a.queue.Forget(t.Context(), e.ID); err != nil {
			t.Fatal(err)
		}
		b.settings.Wait = Answer
		if _, err := b.approve(asking(nil, `{"n":2}`)); !errors.As(err, new(*WaitingError)) {
			t.Errorf("it was forgotten, and counts: %v", err)
		}
		clearQueue(t, link)
	})
	t.Run("dead", func(t *testing.T) {
		a := replicaDesk(t, link, nil)
		var life atomic.Int32
		b := replicaDesk(t, link, func(o *documents.Options) {
			o.Alive = func(string) documents.Life { return documents.Life(life.Load()) }
		})
		e, done := a.held(t.Context(), asking(nil, `{"n":3}`))
		for _, harmless := range []documents.Life{documents.Runs, documents.Nowhere} {
			life.Store(int32(harmless))
			b.listed(1)
			if err := b.queue.Sweep(t.Context()); err != nil || len(b.list()) != 1 {
				t.Errorf("%v: %v, %v", harmless, b.list(), err)
			}
		}
		life.Store(int32(documents.Silent))
		if len(b.list()) != 0 {
			t.Errorf("listed: %v", b.list())
		}
		if _, err := b.queue.Decide(t.Context(), e.ID, Verdict{Allow: true}, HowQueue, 0); !errors.Is(err, ErrUnknown) {
			t.Errorf("decided about the call of a dead replica: %v", err)
		}
		// The process was only cut off, and learns that no person can decide.
		if err := a.ends(done); err == nil || !strings.Contains(err.Error(), "taken for dead") {
			t.Errorf("its call: %v", err)
		}
	})
	t.Run("dead after the decision", func(t *testing.T) {
		gone := replicaDesk(t, link, nil)
		b := replicaDesk(t, link, func(o *documents.Options) { o.Alive = func(string) documents.Life { return documents.Silent } })
		now := time.Now()
		e, _, err := gone.queue.enter(t.Context(), Entry{Subject: subjectOf(t, gone, `{"n":4}`), Created: now, Expires: now.Add(time.Minute)}, gone.settings)
		if err != nil {
			t.Fatal(err)
		}
		gone.decide(e.ID, Verdict{Allow: true})
		if _, err := b.approve(asking(nil, `{"n":4}`)); err != nil {
			t.Errorf("the call that is made again elsewhere: %v", err)
		}
	})
}

// listed waits until so many entries are listed: others are heard of a moment later.
func (d *desk) listed(n int) []Listed {
	d.t.Helper()
	for end := time.After(time.Minute); ; {
		changed := d.queue.place.Changed()
		list := d.list()
		if len(list) == n {
			return list
		}
		select {
		case <-changed:
		case <-end:
			d.t.Fatalf("%d are listed, want %d", len(list), n)
		}
	}
}

func subjectOf(t *testing.T, d *desk, arguments string) Subject {
	t.Helper()
	s, _, err := d.queue.subject(t.Context(), asking(nil, arguments))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// clearQueue removes all entries.
func clearQueue(t *testing.T, link *memorytest.Link) {
	t.Helper()
	d := replicaDesk(t, link, nil)
	for _, e := range d.list() {
		if _, err := d.queue.take(t.Context(), e.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFleetAway cuts a replica off: nothing is allowed by what others may have changed since,
// and it goes on afterwards.
func TestFleetAway(t *testing.T) {
	t.Parallel()
	link := memorytest.New(t)
	other := link.Another(t)
	a := replicaDesk(t, other, func(o *documents.Options) { o.Patience = time.Second })
	b := replicaDesk(t, link, nil)
	for n, v := range map[string]Verdict{`{"n":1}`: {Allow: true, Remember: ForValue}, `{"n":2}`: {Remember: ForValue}} {
		e, done := b.held(t.Context(), asking(nil, n))
		b.decide(e.ID, v)
		b.ends(done)
	}
	if made, err := a.approve(asking(nil, `{"n":1}`)); err != nil || !made.Remembered {
		t.Fatalf("%+v, %v", made, err)
	}
	other.Cut(true)
	for _, n := range []string{`{"n":1}`, `{"n":3}`} {
		if _, err := a.approve(asking(nil, n)); err == nil || !strings.Contains(err.Error(), "the store of the fleet") {
			t.Errorf("%s, while the store is away: %v", n, err)
		}
	}
	if made, err := a.approve(asking(nil, `{"n":2}`)); err == nil || !made.Remembered {
		t.Errorf("what is denied: %+v, %v", made, err)
	}
	other.Cut(false)
	for end := time.Now().Add(time.Minute); ; {
		made, err := a.approve(asking(nil, `{"n":1}`))
		if err == nil && made.Remembered {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("afterwards: %+v, %v", made, err)
		}
	}
}
