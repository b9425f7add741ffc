package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// slowRead blocks reads of an upstream's snapshot.
type slowRead struct {
	started  chan struct{} // has an element for each blocked read
	released chan struct{} // closed by release
	release  func()
}

// slowReads are the blocked reads of a rig, by the name of the upstream.
type slowReads struct {
	mu  sync.Mutex
	all map[string]*slowRead
}

// slowDown makes reads of an upstream's snapshot block.
func slowDown(t testing.TB, r *rig, name string) *slowRead {
	s := &slowRead{started: make(chan struct{}, 10), released: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.released) })
	t.Cleanup(s.release)
	r.slow.mu.Lock()
	defer r.slow.mu.Unlock()
	r.slow.all = map[string]*slowRead{name: s}
	return s
}

// wait waits before a snapshot is read.
func (r *slowReads) wait(path string) {
	r.mu.Lock()
	s := r.all[strings.TrimSuffix(filepath.Base(path), ".json")]
	r.mu.Unlock()
	if s == nil {
		return
	}
	select {
	case <-s.released: // whatever is read now is not blocked
	default:
		s.started <- struct{}{}
		<-s.released
	}
}

// await fails the test if f takes too long.
func await(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-bounded(t).Done():
		t.Fatalf("%s takes too long", what)
	}
}

// TestSlowSnapshotDelaysNoOther checks that other upstreams are found at once while
// the snapshot of an upstream is read.
func TestSlowSnapshotDelaysNoOther(t *testing.T) {
	t.Parallel()
	shared, _ := server(t, "shared", mcptest.ServerOptions{})
	own, _ := server(t, "own", mcptest.ServerOptions{})
	own.Isolation, own.Start = config.PerSession, config.Lazy
	added, _ := server(t, "added", mcptest.ServerOptions{})
	cfg := configOf(t, shared, own)
	r := start(t, cfg, ManyClients)
	one, two := &session{}, &session{}
	r.BeginSession(one)
	r.BeginSession(two)

	reading := slowDown(t, r, "own")
	var asking sync.WaitGroup
	for range 2 { // the second call waits for the read of the first
		asking.Go(func() {
			if c, ok := r.For(one, "own"); !ok || c.Own != one {
				t.Errorf("own: %v %v", c.Own, ok)
			}
		})
	}
	mcptest.Receive(t, "the read of a snapshot", reading.started)
	await(t, "an upstream of all", func() {
		if _, ok := r.For(two, "shared"); !ok {
			t.Error("no upstream")
		}
	})
	reading.release()
	asking.Wait()
	if n := len(reading.started); n != 0 {
		t.Errorf("the snapshot was read %d times", n+1)
	}

	reading = slowDown(t, r, "added")
	next := *cfg
	next.Upstreams = append(next.Upstreams[:2:2], added)
	asking.Go(func() {
		if !r.Apply(&next) {
			t.Error("not applied")
		}
	})
	mcptest.Receive(t, "the read of a snapshot", reading.started)
	await(t, "an upstream that stays", func() {
		if _, ok := r.For(two, "shared"); !ok {
			t.Error("no upstream")
		}
	})
	reading.release()
	asking.Wait()
	if c, ok := r.For(two, "added"); !ok {
		t.Error("no upstream")
	} else if err := c.Ready(bounded(t)); err != nil {
		t.Error(err)
	}
	if err := r.Close(bounded(t)); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(cfg.Store.Dir, "added.json")); err != nil {
		t.Error("what was added is not remembered:", err)
	}
}
