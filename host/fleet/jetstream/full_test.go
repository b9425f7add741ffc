package jetstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestStorageLimit fills what JetStream may use on the disk. Nothing is half there, everything
// can be read, and when there is room again, everything can be written.
func TestStorageLimit(t *testing.T) {
	t.Parallel()
	s := open(t, Options{URLs: []string{natstest.StartAs(t, func(s natstest.Settings) { s.Section("jetstream")["max_file_store"] = 4 << 20 }).URL()}})
	ctx := t.Context()
	log, key := store.NewID().String(), store.Key{Collection: "full", Name: "one"}
	var filling []store.Digest
	for n := 0; ; n++ {
		data := make([]byte, 300<<10)
		data[0], data[1] = byte(n), 1
		d, err := s.PutBlob(ctx, data)
		if errors.Is(err, store.ErrFull) {
			break
		}
		if err != nil || n > 100 {
			t.Fatalf("blob %d: %v", n, err)
		}
		filling = append(filling, d)
	}
	// Smaller things still fit in. At some size nothing does.
	var at store.Position
	var err error
	events := 0
	for size := 256 << 10; size > 0; {
		var next store.Position
		next, err = s.Append(ctx, log, store.Entry{After: at, ID: store.NewID(), Data: make([]byte, size)})
		switch {
		case errors.Is(err, store.ErrFull):
			size /= 2
		case err != nil:
			t.Fatal(err)
		default:
			at = next
			events++
		}
	}
	if _, err := s.Put(ctx, key, "", make([]byte, 200<<10)); !errors.Is(err, store.ErrFull) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if got := storetest.Events(t, s, log, store.Position{}); len(got) != events {
		t.Errorf("%d events, want %d", len(got), events)
	}
	for _, d := range filling {
		if _, err := s.Blob(ctx, d); err != nil {
			t.Error(err)
		}
	}
	if err := s.DropBlob(ctx, filling[0]); err != nil {
		t.Fatal(err)
	}
	storetest.Write(t, s, log, at, 0, "there is room")
}

// TestDiskFull lets the operating system say that there is no room: the server then stops using
// JetStream altogether. When there is room, and it has been restarted, everything that was
// confirmed is there.
func TestDiskFull(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	var small *smallDisk
	s := natstest.StartAs(t, func(s natstest.Settings) {
		small = newSmallDisk(t, "24m")
		s.Section("jetstream")["store_dir"] = small.dir
	})
	st := open(t, Options{URLs: []string{s.URL()}, Attempt: time.Second})
	log := store.NewID().String()
	var at store.Position
	var attempts []storetest.Attempt
	for failures := 0; failures < 3; {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Quiet(3*time.Second))
		a := storetest.Attempt{ID: store.NewID(), Number: at.Number + 1}
		next, err := st.Append(ctx, log, store.Entry{After: at, ID: a.ID, Data: make([]byte, 200<<10)})
		cancel()
		switch {
		case err == nil:
			at, a.Written = next, true
		default:
			t.Log(err)
			a.Unknown = errors.Is(err, store.ErrUnknown)
			if !a.Unknown && !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrUnavailable) {
				t.Fatal(err)
			}
			failures++
		}
		attempts = append(attempts, a)
	}
	small.resize(t, "64m")
	s.Kill()
	s.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := st.Fence(ctx, log, 1); err != nil {
		t.Fatal(err)
	}
	t.Log(storetest.Check(t, st, log, attempts))
}
