package durable

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
)

// lagging is a store whose reads of logs can answer from before, as those of a NATS server that
// does not know yet that it leads no more.
type lagging struct {
	store.Store
	most int // events of a log that are read; negative: all
}

func (l *lagging) Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		n := 0
		for e, err := range l.Store.Read(ctx, log, after) {
			if n == l.most || !yield(e, err) {
				return
			}
			n++
		}
	}
}

// TestReadFromBefore lets a process look at a run, and take it, while the store answers from
// before: it must neither repeat what was done, nor remove the run as one that never began.
func TestReadFromBefore(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	open := func(owner string) (*Runs, *lagging) {
		quiet := slog.New(slog.DiscardHandler)
		log := journal.OpenLog(filepath.Join(dir, "journal"), journal.LogOptions{Log: quiet})
		s := &lagging{files.Open(files.Options{Dir: dir, Journal: log, Log: quiet}), -1}
		runs := New(Options{
			Store: Shared(s), Owner: func() (string, error) { return owner, nil }, Now: func() time.Time { return now },
			Manual: true, Log: quiet,
		})
		t.Cleanup(func() {
			if err := errors.Join(runs.Close(context.Background()), s.Close(), log.Close()); err != nil {
				t.Error(err)
			}
		})
		return runs, s
	}
	first, _ := open("first")
	r := begun(t, first) // the process dies before it renews the lease
	second, s := open("second")
	free := func() (ids []string) {
		for id, err := range second.Free(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		return ids
	}
	free()
	for range 10 { // it looks often enough to see that the lease is not renewed
		now = now.Add(DefaultTTL / 5)
		free()
	}
	if ids := free(); len(ids) != 1 {
		t.Fatalf("free: %v", ids)
	}
	for most := range 2 {
		s.most = most
		if o, err := second.Look(t.Context(), r.ID()); err == nil && o.State != nil && most == 0 {
			t.Errorf("with no event it is %+v", o)
		}
		if _, state, err := second.Take(t.Context(), r.ID()); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("with %d of its events it is taken: %+v, %v", most, state, err)
		}
	}
	s.most = -1
	for range 10 {
		now = now.Add(DefaultTTL / 5)
		free()
	}
	taken, state, err := second.Take(t.Context(), r.ID())
	if err != nil || len(state.intents) != 1 {
		t.Fatalf("%+v, %v", state, err)
	}
	if err := taken.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
}
