package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

func testBlobs(t *testing.T, open Open, much extent) {
	s := open(t)
	sizes := []int{0, 1, 1 << 20, 1<<20 + 1, 9 << 20}
	if much == largest {
		sizes = append(sizes, store.MaxBlob)
	}
	for _, size := range sizes {
		digest, err := s.PutBlob(within(t), content(size))
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if again, err := open(t).PutBlob(within(t), content(size)); err != nil || again != digest {
			t.Fatalf("%d bytes: %s %v, want %s", size, again, err, digest)
		}
		if data, err := open(t).Blob(within(t), digest); err != nil || !bytes.Equal(data, content(size)) {
			t.Fatalf("%d bytes: %d %v", size, len(data), err)
		}
		for range 2 {
			if err := s.DropBlob(within(t), digest); err != nil {
				t.Fatal(err)
			}
		}
		_, err = s.Blob(within(t), digest)
		wantError(t, err, store.ErrNotFound)
	}
	_, err := s.PutBlob(within(t), make([]byte, store.MaxBlob+store.Slack+1))
	if bad := (*store.SizeError)(nil); !errors.As(err, &bad) {
		t.Fatal(err)
	}
	for _, digest := range []store.Digest{"", "x", "../../etc/passwd", store.DigestOf(nil)[:63] + "G", store.DigestOf(nil) + "0"} {
		_, get := s.Blob(within(t), digest)
		for _, err := range []error{get, s.DropBlob(within(t), digest)} {
			if bad := (*store.NameError)(nil); !errors.As(err, &bad) {
				t.Errorf("digest %q: %v", digest, err)
			}
		}
	}
}

// testClosed uses a Store after Close, and closes one that is used.
func testClosed(t *testing.T, open Open) {
	s := open(t)
	log := newLog()
	at := Write(t, s, log, store.Position{}, 0, "a")
	ended := make(chan error)
	go func() {
		var last error
		for _, err := range s.Follow(context.WithoutCancel(within(t)), log, at) {
			last = err
		}
		ended <- last
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, <-ended, store.ErrClosed)
	_, err := s.Append(within(t), log, store.Entry{After: at, ID: store.NewID(), Data: []byte("x")})
	wantError(t, err, store.ErrClosed)
	_, err = s.Put(within(t), store.Key{Collection: "closed", Name: "a"}, "", nil)
	wantError(t, err, store.ErrClosed)
	_, err = s.PutBlob(within(t), nil)
	wantError(t, err, store.ErrClosed)
	if events := Events(t, open(t), log, store.Position{}); texts(events) != "a " {
		t.Fatalf("%q", texts(events))
	}
}

// testCancelled calls with a context that has ended.
func testCancelled(t *testing.T, open Open) {
	s := open(t)
	ctx, cancel := context.WithCancelCause(within(t))
	cause := errors.New("the caller has gone")
	cancel(cause)
	log := newLog()
	_, err := s.Append(ctx, log, store.Entry{ID: store.NewID(), Data: []byte("x")})
	wantError(t, err, cause)
	_, err = s.Put(ctx, store.Key{Collection: "cancelled", Name: "a"}, "", nil)
	wantError(t, err, cause)
	_, err = s.Fence(ctx, log, 1)
	wantError(t, err, cause)
	if events := Events(t, s, log, store.Position{}); len(events) > 0 {
		t.Fatalf("%q", texts(events))
	}
}
