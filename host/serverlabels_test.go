package host

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
)

// lostPuts is a Store that does not say what has become of each second Put, which it has made.
type lostPuts struct {
	store.Store
	mu sync.Mutex
	n  int
}

func (s *lostPuts) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	version, err := s.Store.Put(ctx, key, old, data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n%2 == 0 && err == nil {
		return "", store.ErrUnknown
	}
	return version, err
}

// TestServerLabels checks that processes which share a store know at once what one of them has
// added, and that nothing is lost if they add at the same time.
func TestServerLabels(t *testing.T) {
	opens := map[string]func(t *testing.T) func() store.Store{
		"files": func(t *testing.T) func() store.Store {
			dir := t.TempDir()
			return func() store.Store { return files.Open(files.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}) }
		},
		"fleet": func(t *testing.T) func() store.Store {
			url := fleettest.New(t, *long).URL()
			return func() store.Store {
				s, err := fleettest.Open(t.Context(), jetstream.Options{URLs: []string{url}, Make: jetstream.MakeNew, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
		},
	}
	for name, prepare := range opens {
		t.Run(name, func(t *testing.T) {
			open := prepare(t)
			var all []*ServerLabels
			for range 3 {
				s := open()
				l := NewServerLabels(&lostPuts{Store: s}, s.Close)
				t.Cleanup(func() { _ = l.Close() })
				all = append(all, l)
			}
			if got, err := all[0].Read(t.Context()); err != nil || len(got) != 0 {
				t.Fatal(got, err)
			}
			want := map[string]flow.Labels{"both": flow.Of(flow.Private, flow.Untrusted)}
			var adding sync.WaitGroup
			for i, l := range all {
				want[fmt.Sprint("s", i)] = flow.Of(flow.Private)
				adding.Go(func() {
					for server, set := range map[string]flow.Labels{fmt.Sprint("s", i): flow.Of(flow.Private), "both": flow.Of(flow.AllLabels[i%2])} {
						if err := l.Add(t.Context(), server, set); err != nil {
							t.Error(err)
						}
					}
				})
			}
			adding.Wait()
			for i, l := range all {
				if got, err := l.Read(t.Context()); err != nil || !maps.Equal(got, want) {
					t.Errorf("%d: %v, want %v: %v", i, got, want, err)
				}
			}
			if had, err := all[0].Remove(t.Context(), "both"); !had || err != nil {
				t.Error(had, err)
			}
			if got, err := all[1].Read(t.Context()); err != nil || got["both"] != 0 {
				t.Errorf("%v: %v", got, err)
			}
		})
	}
}
