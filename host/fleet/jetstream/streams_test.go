package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
)

// tryOpen opens a Store, and returns the streams that were made.
func tryOpen(t *testing.T, opts Options) (made []string, err error) {
	t.Helper()
	opts.Log = slog.New(slog.DiscardHandler)
	opts.Made = func(stream string) { made = append(made, stream) }
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := Open(ctx, opts)
	if err == nil {
		s.Close()
	}
	return made, err
}

// TestLostStreams takes streams away from a store that is open. It says so, a process that only looks makes
// none again, nor does a replica that had them. When a process has made them again, the store goes on.
func TestLostStreams(t *testing.T) {
	t.Parallel()
	opts := Options{URLs: []string{natstest.Start(t).URL()}}
	all := Streams("")
	if made, err := tryOpen(t, opts); !errors.Is(err, store.ErrMissing) || made != nil {
		t.Fatalf("there are none yet: %v, made %v", err, made)
	}
	opts.Make = MakeNew
	if made, err := tryOpen(t, opts); err != nil || !slices.Equal(made, all) {
		t.Fatalf("a new fleet: %v, made %v", err, made)
	}
	s := open(t, opts)
	log, key := store.NewID().String(), store.Key{Collection: "lost", Name: "one"}
	at := storetest.Write(t, s, log, store.Position{}, 0, "a")
	old, err := s.Put(t.Context(), key, "", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan error, 10)
	go func() {
		defer close(changes)
		for c, err := range s.Watch(t.Context(), key.Collection) {
			if err != nil || c.Ready {
				changes <- err
			}
		}
	}()
	if err := <-changes; err != nil {
		t.Fatal(err)
	}
	for _, lost := range [][]string{all[1:2], all[:1], all[3:], all} {
		for _, name := range lost {
			if err := s.js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		opts.Had = all
		for _, opts.Make = range []Make{MakeNone, MakeNew} {
			if made, err := tryOpen(t, opts); !errors.Is(err, store.ErrMissing) || made != nil {
				t.Errorf("without %v: %v, made %v", lost, err, made)
			}
		}
		opts.Had = nil // a new replica
		if !slices.Equal(lost, all) && !slices.Equal(lost, all[3:]) {
			if made, err := tryOpen(t, opts); !errors.Is(err, store.ErrMissing) || made != nil {
				t.Errorf("without %v, for a new replica: %v, made %v", lost, err, made)
			}
		}
		if slices.Contains(lost, all[1]) {
			if _, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrMissing) || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("get: %v", err)
			}
		}
		if slices.Contains(lost, all[3]) {
			if err := s.Whole(t.Context(), store.LastingPrefix+log); !errors.Is(err, store.ErrMissing) {
				t.Errorf("a log that lasts: %v", err)
			}
		}
		opts.Make = MakeAll
		if made, err := tryOpen(t, opts); err != nil || !slices.Equal(made, lost) {
			t.Errorf("made again: %v, made %v, want %v", err, made, lost)
		}
		if slices.Contains(lost, all[1]) {
			old = ""
		}
		if old, err = s.Put(t.Context(), key, old, []byte("2")); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(lost, all[0]) {
			if _, err := s.Append(t.Context(), log, store.Entry{After: at, ID: store.NewID(), Data: []byte("b")}); !errors.Is(err, store.ErrGone) {
				t.Errorf("behind what was lost: %v", err)
			}
			for _, err := range s.Read(t.Context(), log, at) {
				if !errors.Is(err, store.ErrGone) {
					t.Errorf("read behind what was lost: %v", err)
				}
			}
			at = storetest.Write(t, s, log, store.Position{}, 0, "b")
		}
	}
	select { // the first loss has ended it
	case err := <-changes:
		if !errors.Is(err, store.ErrGone) && !errors.Is(err, store.ErrMissing) {
			t.Errorf("a watch over the loss: %v", err)
		}
	case <-time.After(patience):
		t.Error("a watch waits for what cannot come")
	}
}

// TestStreamsOfBefore opens a store that a version has made which had three streams.
func TestStreamsOfBefore(t *testing.T) {
	t.Parallel()
	opts := Options{URLs: []string{natstest.Start(t).URL()}, Make: MakeNew}
	s := open(t, opts)
	storetest.Write(t, s, store.NewID().String(), store.Position{}, 0, "a")
	all := Streams("")
	if err := s.js.DeleteStream(t.Context(), all[3]); err != nil {
		t.Fatal(err)
	}
	opts.Had = all[:3]
	if made, err := tryOpen(t, opts); err != nil || !slices.Equal(made, all[3:]) {
		t.Errorf("%v, made %v", err, made)
	}
}
