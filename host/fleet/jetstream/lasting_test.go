package jetstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
)

// TestLastingLogs writes more into other logs than their stream keeps. A log that lasts stays whole,
// and one of those has lost its beginning.
func TestLastingLogs(t *testing.T) {
	t.Parallel()
	s := open(t, Options{URLs: []string{natstest.Start(t).URL()}, MaxBytes: 64 << 10})
	lasting, other := store.LastingPrefix+store.NewID().String(), store.NewID().String()
	at := storetest.Write(t, s, lasting, store.Position{}, 0, "a")
	storetest.Write(t, s, other, store.Position{}, 0, "a")
	for n := range 40 {
		storetest.Write(t, s, fmt.Sprintf("flood-%d", n), store.Position{}, 0, strings.Repeat("x", 4<<10))
	}
	if err := s.Whole(t.Context(), other); !errors.Is(err, store.ErrGone) {
		t.Fatalf("nothing was removed: %v", err)
	}
	if err := s.Whole(t.Context(), lasting); err != nil {
		t.Error(err)
	}
	storetest.Write(t, s, lasting, at, 0, "b")
	if got := texts(storetest.Events(t, s, lasting, store.Position{})); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
}

func texts(events []store.Event) (all []string) {
	for _, e := range events {
		all = append(all, string(e.Data))
	}
	return all
}

// TestLastingLogOfBefore goes on with a log that a version has begun which kept it with the others.
// The former owner, which writes there, is fenced, and a marker of such a version in the wrong stream
// changes nothing.
func TestLastingLogOfBefore(t *testing.T) {
	t.Parallel()
	s := open(t, Options{URLs: []string{natstest.Start(t).URL()}})
	ctx := t.Context()
	name := store.NewID().String()
	log := store.LastingPrefix + name
	// Such a version does for this log what this one does for others.
	at, err := s.Fence(ctx, name, 1)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Write(t, s, name, at, 1, "a")
	old, seqs := s.inLogs(log), []uint64{}
	for from := uint64(1); ; {
		m, err := s.next(ctx, s.logs, s.inLogs(name).subject, from)
		if err != nil {
			t.Fatal(err)
		}
		if m == nil {
			break
		}
		from = m.Sequence + 1
		msg := newMessage(old.subject, m.Data)
		for _, h := range []string{headerID, headerNumber, headerFence, headerMarker} {
			if v := m.Header.Get(h); v != "" {
				msg.Header.Set(h, v)
			}
		}
		seq, out, err := s.publish(ctx, msg, -1)
		if out != done {
			t.Fatal(out, err)
		}
		seqs = append(seqs, seq)
	}
	before := store.Position{Number: 1, Fence: 1, Mark: seqs[len(seqs)-1]} // as the former owner knows it
	if err := s.Whole(ctx, log); err != nil {
		t.Error(err)
	}
	mine, err := s.Fence(ctx, log, 2)
	if err != nil || mine.Number != 1 || mine.Mark&inRuns != 0 {
		t.Fatalf("%+v %v", mine, err)
	}
	if _, err := s.Append(ctx, log, store.Entry{After: before, Fence: 1, ID: store.NewID(), Data: []byte("late")}); !errors.As(err, new(*store.FencedError)) {
		t.Errorf("the former owner: %v", err)
	}
	storetest.Write(t, s, log, mine, 2, "b")
	if got := texts(storetest.Events(t, s, log, store.Position{})); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	if err := s.Drop(ctx, log); err != nil {
		t.Fatal(err)
	}
	if err := s.Whole(ctx, log); !errors.Is(err, store.ErrGone) {
		t.Error(err)
	}

	fresh := store.LastingPrefix + store.NewID().String()
	at = storetest.Write(t, s, fresh, store.Position{}, 1, "a")
	if at.Mark&inRuns == 0 {
		t.Fatalf("%+v", at)
	}
	stray := newMessage(s.inLogs(fresh).subject, nil, headerMarker, "0", headerNumber, "0", headerFence, "2")
	if _, out, err := s.publish(ctx, stray, 0); out != done {
		t.Fatal(out, err)
	}
	storetest.Write(t, s, fresh, at, 1, "b")
	if got := texts(storetest.Events(t, s, fresh, store.Position{})); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	if err := s.Drop(ctx, fresh); err != nil {
		t.Fatal(err)
	}
	if m, err := s.last(ctx, s.logs, s.inLogs(fresh).subject); err != nil || m != nil {
		t.Errorf("the marker is left: %v %v", m, err)
	}
}
