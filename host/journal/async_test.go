package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestProxiedAsync checks that a call is in the journal when its callback runs,
// whatever the setting of Sync.
func TestProxiedAsync(t *testing.T) {
	for _, sync := range []Sync{SyncNever, SyncAlways} {
		dir := t.TempDir()
		l := openLog(t, dir, LogOptions{Sync: sync})
		written := make(chan int, 1)
		if !l.ProxiedAsync(Proxied{Start: time.Now(), Tool: "x", Outcome: OK}, func() {
			n := 0
			for range ScanProxied(t.Context(), dir, Filter{}) {
				n++
			}
			written <- n
		}) {
			t.Fatal("not accepted")
		}
		if n := <-written; n != 1 {
			t.Errorf("%d are in the journal", n)
		}
	}
	if (*Log)(nil).ProxiedAsync(Proxied{}, nil) {
		t.Error("accepted by a nil Log")
	}
}

func TestProxiedAsyncIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{})
	l.mu.Lock() // so it cannot be written to
	var tools []string
	var order []string // of the goroutine that records, until Close
	for {
		tool := fmt.Sprint(len(tools))
		if !l.ProxiedAsync(Proxied{Start: time.Now(), Tool: tool, Outcome: OK}, func() { order = append(order, tool) }) {
			break
		}
		tools = append(tools, tool)
	}
	l.mu.Unlock()
	if len(tools) < maxQueued || len(tools) > 2*maxQueued { // some may have been taken to be written
		t.Errorf("%d wait", len(tools))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(order) != fmt.Sprint(tools) {
		t.Errorf("called back in the order %v", order)
	}
	found := 0
	for p, err := range ScanProxied(t.Context(), dir, Filter{}) {
		if err != nil || p.Outcome != OK {
			t.Fatal(p, err)
		}
		found++
	}
	if found != len(tools) {
		t.Errorf("%d of %d are in the journal", found, len(tools))
	}
	if l.ProxiedAsync(Proxied{}, nil) {
		t.Error("accepted after Close")
	}
}

// TestProxiedAsyncStalls checks that a callback that blocks does not block Close
// forever.
func TestProxiedAsyncStalls(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		hear := make(chan struct{})
		l := OpenLog(dir, LogOptions{Log: quiet(), Trouble: func(error) { <-hear }})
		written := make(chan struct{})
		if !l.ProxiedAsync(Proxied{Start: time.Now(), Outcome: OK}, func() { close(written) }) {
			t.Fatal("not accepted")
		}
		if err := l.Close(); !errors.Is(err, errStalled) {
			t.Errorf("Close: %v", err)
		}
		close(hear)
		<-written // it is called nevertheless
	})
}
